//! Repositories behind a web server.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use runtime_cloud_git::{Credential, GitError, Limits};

use crate::server::{Manner, Server};
use crate::stage::{Stage, soon};

fn serve(stage: &Stage) -> Server {
    let server = Server::new(Manner::Serve(stage.path("served")));
    // The web server's repository is the folder that Git keeps inside the working copy.
    Server { url: format!("{}/.git", server.url), ..server }
}

#[test]
fn names_are_resolved_and_commits_checked_out() {
    let stage = Stage::new();
    let first = stage.head();
    stage.git(&["tag", "-a", "v1", "-m", "annotated"]);
    stage.write("app/second.txt", "x");
    let second = stage.commit("second");
    let server = serve(&stage);
    let resolve = |reference: &str| stage.source.resolve(&server.url, reference, None, soon());
    for (reference, commit) in [
        ("main", &second),
        ("HEAD", &second),
        ("refs/heads/main", &second),
        ("v1", &first),
        (&first[..8], &first),
        (second.as_str(), &second),
    ] {
        assert_eq!(&resolve(reference).unwrap(), commit, "{reference}");
    }
    for reference in ["absent", "deadbeef"] {
        let error = resolve(reference).unwrap_err();
        assert!(matches!(error, GitError::ReferenceNotFound { .. }), "{error:?}");
    }
    let remote = stage.checkout_from(&server.url, &first, "app").unwrap();
    let local = stage.checkout(&first, "app").unwrap();
    assert_eq!(remote.tree_digest, local.tree_digest);
    assert!(!remote.program_dir.join("second.txt").exists());
}

#[test]
fn only_what_is_absent_is_fetched() {
    let stage = Stage::new();
    let commit = stage.head();
    let server = serve(&stage);
    let first = stage.checkout_from(&server.url, &commit, "app").unwrap();
    let calls = server.calls.load(Ordering::SeqCst);
    assert!(calls > 0);
    let second = stage.checkout_from(&server.url, &commit, "app").unwrap();
    assert_eq!(first.tree_digest, second.tree_digest);
    assert_eq!(server.calls.load(Ordering::SeqCst), calls);
    stage.write("app/later.txt", "x");
    let later = stage.commit("later");
    assert!(stage.checkout_from(&server.url, &later, "app").unwrap().program_dir.join("later.txt").exists());
}

#[test]
fn what_one_owner_has_read_is_in_no_cache_of_another() {
    let stage = Stage::new();
    let first = stage.head();
    let secret = stage.commit("secret");
    let server = serve(&stage);
    let checkout = |owner: &str| {
        let (source, dest) = (stage.source.of(owner), stage.new_dest());
        source.checkout(&server.url, &secret, "app", &dest, None, soon())
    };
    checkout("acme").unwrap();
    // It can be read no more, as by somebody without the credential.
    stage.git(&["reset", "-q", "--hard", &first]);
    stage.git(&["reflog", "expire", "--expire=now", "--all"]);
    stage.git(&["gc", "-q", "--prune=now"]);
    checkout("acme").unwrap();
    let error = checkout("other").unwrap_err();
    assert!(matches!(error, GitError::CommitNotFound { .. }), "{error:?}");
}

#[test]
fn caches_that_nobody_uses_go_when_a_new_one_is_made() {
    let caches = |stage: &Stage| {
        let folders = fs::read_dir(stage.path("caches")).unwrap().map(|e| e.unwrap().path());
        let entries = folders.filter(|f| f.is_dir()).flat_map(|f| fs::read_dir(f).unwrap());
        entries.filter(|e| e.as_ref().unwrap().path().extension() == Some("git".as_ref())).count()
    };
    for (unused, left) in [(Duration::ZERO, 1), (Duration::from_secs(3600), 2)] {
        let stage = Stage::with(Limits { unused, ..Limits::default() });
        let commit = stage.head();
        for owner in ["acme", "other"] {
            let (source, dest) = (stage.source.of(owner), stage.new_dest());
            source.checkout(&stage.address(), &commit, "app", &dest, None, soon()).unwrap();
        }
        assert_eq!(caches(&stage), left);
        // One that was removed is made again.
        let (source, dest) = (stage.source.of("acme"), stage.new_dest());
        source.checkout(&stage.address(), &commit, "app", &dest, None, soon()).unwrap();
    }
}

#[test]
fn a_commit_dropped_by_a_forced_push_stays_in_the_cache_but_nowhere_else() {
    let stage = Stage::new();
    let first = stage.head();
    let kept = stage.commit("kept");
    let server = serve(&stage);
    stage.checkout_from(&server.url, &kept, "app").unwrap();
    let lost = stage.commit("lost");
    stage.git(&["reset", "-q", "--hard", &first]);
    stage.git(&["reflog", "expire", "--expire=now", "--all"]);
    stage.git(&["gc", "-q", "--prune=now"]);
    stage.checkout_from(&server.url, &kept, "app").unwrap();
    let error = stage.checkout_from(&server.url, &lost, "app").unwrap_err();
    assert!(matches!(error, GitError::CommitNotFound { .. }), "{error:?}");
    assert!(!error.is_retryable());
}

#[test]
fn a_server_that_refuses_single_commits_is_fetched_whole() {
    let stage = Stage::new();
    let first = stage.head();
    stage.commit("second");
    let server = Server::new(Manner::ServeOld(stage.path("served")));
    let url = format!("{}/.git", server.url);
    assert_eq!(stage.source.resolve(&url, "main", None, soon()).unwrap(), stage.head());
    stage.checkout_from(&url, &first, "app").unwrap();
    let absent = "0123456789abcdef0123456789abcdef01234567";
    let error = stage.checkout_from(&url, absent, "app").unwrap_err();
    assert!(matches!(error, GitError::CommitNotFound { .. }), "{error:?}");
}

#[test]
fn a_missing_repository_is_gone() {
    let stage = Stage::new();
    let server = Server::new(Manner::Serve(stage.path("served")));
    let url = server.url.replace("/repo", "/absent");
    let error = stage.source.resolve(&url, "main", None, soon()).unwrap_err();
    assert!(matches!(error, GitError::Gone { .. }), "{error:?}");
    let error = stage.checkout_from(&url, &stage.head(), "app").unwrap_err();
    assert!(matches!(error, GitError::Gone { .. }), "{error:?}");
}

#[test]
fn a_server_that_wants_a_credential_says_so() {
    let stage = Stage::new();
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let server = Server::new(Manner::Status(status));
        let error = stage.source.resolve(&server.url, "main", None, soon()).unwrap_err();
        assert!(matches!(error, GitError::Unauthorized { .. }), "{status}: {error:?}");
        assert!(!error.is_retryable());
    }
}

#[test]
fn a_credential_is_never_sent_unencrypted_nor_shown() {
    let stage = Stage::new();
    let server = serve(&stage);
    let credential = Credential::new("me", "hush");
    assert!(!format!("{credential:?}").contains("hush"));
    let refused = stage.source.resolve(&server.url, "main", Some(&credential), soon());
    assert!(matches!(refused, Err(GitError::CredentialUnprotected { .. })));
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
}

#[test]
fn a_server_in_trouble_or_away_is_retryable() {
    let stage = Stage::new();
    let broken = Server::new(Manner::Status("503 Service Unavailable")).url;
    let away = "http://127.0.0.1:1/repo".to_owned();
    for url in [broken, away] {
        let error = stage.source.resolve(&url, "main", None, soon()).unwrap_err();
        assert!(matches!(error, GitError::Unavailable { .. }), "{error:?}");
        assert!(error.is_retryable());
        let error = stage.checkout_from(&url, &stage.head(), "app").unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
    }
}

#[test]
fn a_silent_server_times_out() {
    let stage = Stage::new();
    let server = Server::new(Manner::Silent);
    let deadline = Instant::now() + Duration::from_millis(300);
    let error = stage.source.resolve(&server.url, "main", None, deadline).unwrap_err();
    assert!(matches!(error, GitError::TimedOut { .. }), "{error:?}");
    assert!(error.is_retryable());
}

#[test]
fn a_fetch_past_its_limit_is_refused() {
    let stage = Stage::with(Limits { fetch_bytes: 10, ..Limits::default() });
    stage.write("app/large", &"x".repeat(1000));
    let commit = stage.commit("large");
    let server = serve(&stage);
    let error = stage.checkout_from(&server.url, &commit, "app").unwrap_err();
    assert!(matches!(error, GitError::TooLarge { .. }), "{error:?}");
}

#[test]
fn many_at_once_share_one_cache() {
    let stage = Stage::new();
    let commit = stage.head();
    let server = serve(&stage);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| stage.checkout_from(&server.url, &commit, "app").unwrap());
        }
    });
    let caches = fs::read_dir(stage.path("caches")).unwrap().count();
    assert_eq!(caches, 2, "one repository and its lock");
}
