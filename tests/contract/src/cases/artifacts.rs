//! Artifacts: named by their digest and checked against it.

use std::sync::Arc;

use domain::Digest;
use ports::Artifacts;

/// Puts other bytes in the place of an artifact.
pub type Tamper = Arc<dyn Fn(&Digest, &[u8]) + Send + Sync>;

/// Fresh artifacts, and a hand that changes what is kept.
#[derive(Clone)]
pub struct Subject {
    /// The port.
    pub artifacts: Arc<dyn Artifacts>,
    /// Puts other bytes in the place of an artifact, behind the port's back.
    pub tamper: Tamper,
}

crate::case::table! {
    /// Each with fresh artifacts.
    Subject:
    bytes_are_read_back_by_their_digest,
    the_same_bytes_are_one_artifact,
    nothing_is_read_where_nothing_was_written,
    a_changed_artifact_is_refused,
    a_changed_artifact_is_repaired_by_whoever_has_its_bytes,
}

async fn bytes_are_read_back_by_their_digest(subject: Subject) {
    for bytes in [&b""[..], b"x", &[0, 159, 255], &vec![3; 2_000_000]] {
        let digest = subject.artifacts.put(bytes).await.unwrap();
        assert_eq!(digest, Digest::of(bytes));
        assert_eq!(subject.artifacts.get(&digest).await.unwrap().as_deref(), Some(bytes));
    }
}

async fn the_same_bytes_are_one_artifact(subject: Subject) {
    let puts = (0..16).map(|_| {
        let artifacts = Arc::clone(&subject.artifacts);
        tokio::spawn(async move { artifacts.put(b"the same").await.unwrap() })
    });
    for put in futures::future::join_all(puts).await {
        assert_eq!(put.unwrap(), Digest::of(b"the same"));
    }
}

async fn nothing_is_read_where_nothing_was_written(subject: Subject) {
    assert_eq!(subject.artifacts.get(&Digest::of(b"never")).await.unwrap(), None);
}

async fn a_changed_artifact_is_refused(subject: Subject) {
    let digest = subject.artifacts.put(b"the state").await.unwrap();
    for other in [&b"another state"[..], b"", b"the stat"] {
        (subject.tamper)(&digest, other);
        let error = subject.artifacts.get(&digest).await.unwrap_err();
        assert!(!error.is_temporary() && error.to_string().contains(digest.as_str()), "{error}");
    }
}

async fn a_changed_artifact_is_repaired_by_whoever_has_its_bytes(subject: Subject) {
    let digest = subject.artifacts.put(b"the state").await.unwrap();
    for other in [&b"another state"[..], b"", b"the stat"] {
        (subject.tamper)(&digest, other);
        assert_eq!(subject.artifacts.put(b"the state").await.unwrap(), digest);
        assert_eq!(subject.artifacts.get(&digest).await.unwrap().as_deref(), Some(&b"the state"[..]));
    }
}
