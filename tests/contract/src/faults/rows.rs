//! A database that fails.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Key, Kind, Version};
use ports::commit::{Commit, CommitError, CommitId, Committed, Op, Row};
use ports::rows::{By, CounterRead, Listing, Page, RowRead, Rows};
use ports::{PortError, rows};
use uuid::Uuid;

use super::schedule::{Fault, Faults, crashed, delayed, lost, throttled};

/// A database that fails when it writes.
pub struct FaultyRows {
    rows: Arc<dyn Rows>,
    faults: Arc<Faults>,
}

impl FaultyRows {
    /// Over a database.
    pub fn new(rows: Arc<dyn Rows>, faults: impl Into<Arc<Faults>>) -> FaultyRows {
        FaultyRows { rows, faults: faults.into() }
    }

    /// Somebody else writes the commit's first row: its state stays, its version and its commit move on.
    async fn contend(&self, commit: &Commit) {
        let Some(Op::Put { row, .. }) = commit.ops.iter().find(|op| matches!(op, Op::Put { .. })) else {
            return;
        };
        let found: Option<rows::RowRead> = self.rows.get(&row.key).await.unwrap();
        let replaces = found.as_ref().map(|f| f.version);
        let body = found.map_or_else(|| row.body.clone(), |f| f.body);
        let version = Version::after(replaces);
        let other = Row { key: row.key.clone(), version, body, facets: row.facets.clone() };
        let mut rival = commit.clone();
        rival.id = CommitId(Uuid::new_v5(&commit.id.0, version.0.to_string().as_bytes()));
        rival.ops = vec![Op::Put { row: other, replaces, letters: vec![] }];
        assert_eq!(self.rows.write(&rival).await.unwrap(), Committed::Yes, "the rival was slower");
    }
}

#[async_trait]
impl Rows for FaultyRows {
    async fn get(&self, key: &Key) -> Result<Option<RowRead>, PortError> {
        self.faults.alive()?;
        self.rows.get(key).await
    }

    async fn find(&self, kind: Kind, by: By<'_>, page: Page) -> Result<Listing, PortError> {
        self.faults.alive()?;
        self.rows.find(kind, by, page).await
    }

    async fn write(&self, commit: &Commit) -> Result<Committed, CommitError> {
        match self.faults.next() {
            None => self.rows.write(commit).await,
            Some(Fault::AnswerLost) => {
                // Its answer is what gets lost.
                drop(self.rows.write(commit).await);
                Err(CommitError::Unknown(lost()))
            }
            Some(Fault::Duplicate) => {
                let answer = self.rows.write(commit).await;
                drop(self.rows.write(commit).await);
                answer
            }
            Some(Fault::Delay) => {
                delayed().await;
                self.rows.write(commit).await
            }
            Some(Fault::Throttle) => Err(CommitError::NotApplied(throttled())),
            Some(Fault::CrashBefore) => Err(CommitError::NotApplied(crashed())),
            Some(Fault::CrashAfter) => {
                drop(self.rows.write(commit).await);
                Err(CommitError::Unknown(crashed()))
            }
            Some(Fault::Contended) => {
                self.contend(commit).await;
                self.rows.write(commit).await
            }
        }
    }

    async fn counter(&self, counter: &str) -> Result<Vec<CounterRead>, PortError> {
        self.faults.alive()?;
        self.rows.counter(counter).await
    }
}
