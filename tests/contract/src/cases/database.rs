//! A fresh database as the cases use it, and waiting.

use std::sync::Arc;

use ports::commit::{Commit, CommitError, Committed, Conflict};
use ports::{Letters, Rows, Store};

use crate::sample::Sample;

/// A fresh database.
#[derive(Clone)]
pub struct Database {
    /// As the product sees it: plain, or under faults.
    pub rows: Arc<dyn Rows>,
    /// As it is.
    pub bare: Arc<dyn Rows>,
    /// What was committed and has not left yet.
    pub letters: Arc<dyn Letters>,
    /// Makes samples.
    pub sample: Arc<Sample>,
}

impl Database {
    pub(crate) fn store(&self) -> Store {
        Store::new(Arc::clone(&self.rows))
    }

    /// Commits as a worker does whose message comes again: what was not applied for now is tried again.
    pub(crate) async fn commit(&self, commit: Commit) -> Committed {
        for _ in 0..20 {
            match self.store().commit(commit.clone()).await {
                Ok(committed) => return committed,
                Err(CommitError::NotApplied(e)) if e.is_temporary() => {}
                Err(e) => panic!("{e}: {:?}", std::error::Error::source(&e)),
            }
        }
        panic!("it was never written");
    }

    pub(crate) async fn written(&self, commit: Commit) {
        assert_eq!(self.commit(commit).await, Committed::Yes);
    }

    pub(crate) async fn refused(&self, commit: Commit) -> Vec<Conflict> {
        match self.commit(commit).await {
            Committed::Yes => panic!("it was written"),
            Committed::Conflict(conflicts) => conflicts,
        }
    }
}

/// Waits for something without sleeping through it: looks again until it holds, or the limit is over.
pub async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !look().await {
        assert!(std::time::Instant::now() < limit, "waited 20 s for {what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
