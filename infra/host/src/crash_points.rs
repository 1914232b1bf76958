//! For the crash test: dies at the n-th passage of a named point. Without its variable nothing is wrapped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use domain::{Key, Kind};
use ports::commit::{Commit, CommitError, Committed};
use ports::rows::{By, CounterRead, Listing, Page, RowRead};
use ports::{PortError, Put, Receipts, Rows};

/// `RUNTIME_CLOUD_CRASH_AT=<point>:<before|after>:<n>`; points are `commit` and `receipt`.
pub const VARIABLE: &str = "RUNTIME_CLOUD_CRASH_AT";

/// Where to die.
#[derive(Clone)]
pub struct CrashPoint {
    point: String,
    before: bool,
    left: Arc<AtomicU32>,
}

impl CrashPoint {
    /// Of the environment.
    pub fn read() -> Option<CrashPoint> {
        let text = std::env::var_os(VARIABLE)?.into_string().ok()?;
        let mut parts = text.split(':');
        let (point, side, n) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?);
        Some(CrashPoint {
            point: point.to_owned(),
            before: side == "before",
            left: Arc::new(AtomicU32::new(n)),
        })
    }

    fn pass(&self, point: &str, before: bool) {
        if self.point == point && self.before == before && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // As kill -9: nothing is flushed, nobody is told.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

/// Rows that die.
pub struct CrashingRows(pub Arc<dyn Rows>, pub CrashPoint);

#[async_trait]
impl Rows for CrashingRows {
    async fn get(&self, key: &Key) -> Result<Option<RowRead>, PortError> {
        self.0.get(key).await
    }
    async fn find(&self, kind: Kind, by: By<'_>, page: Page) -> Result<Listing, PortError> {
        self.0.find(kind, by, page).await
    }
    async fn write(&self, commit: &Commit) -> Result<Committed, CommitError> {
        self.1.pass("commit", true);
        let result = self.0.write(commit).await;
        self.1.pass("commit", false);
        result
    }
    async fn counter(&self, counter: &str) -> Result<Vec<CounterRead>, PortError> {
        self.0.counter(counter).await
    }
}

/// Receipts that die.
pub struct CrashingReceipts(pub Arc<dyn Receipts>, pub CrashPoint);

#[async_trait]
impl Receipts for CrashingReceipts {
    async fn put_once(&self, key: &str, bytes: &[u8]) -> Result<Put, PortError> {
        self.1.pass("receipt", true);
        let result = self.0.put_once(key, bytes).await;
        self.1.pass("receipt", false);
        result
    }
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        self.0.get(key).await
    }
    async fn list(&self, folder: &str) -> Result<Vec<String>, PortError> {
        self.0.list(folder).await
    }
}
