//! The typed store over any database: load, find, commit.

use std::sync::Arc;

use domain::aggregate::Address;
use domain::{Aggregate, Key, Versioned};

use crate::commit::{Commit, CommitError, Committed, Op};
use crate::error::PortError;
use crate::rows::{By, CounterRead, Page, Rows};

/// How often a commit whose answer was lost is sent again before the question is given back.
const RESENDS: u32 = 4;

/// The store.
#[derive(Clone)]
pub struct Store(Arc<dyn Rows>);

impl Store {
    /// Over a database.
    pub fn new(rows: Arc<dyn Rows>) -> Store {
        Store(rows)
    }

    /// Reads a state to decide on.
    pub async fn load<A: Aggregate>(&self, id: &A::Id) -> Result<Option<Versioned<A>>, PortError> {
        let key = id.key(A::KIND);
        let Some(row) = self.0.get(&key).await? else { return Ok(None) };
        Ok(Some(Versioned::loaded(row.version, read(&key, &row.body)?)))
    }

    /// Reads a state that must be there.
    pub async fn need<A: Aggregate>(&self, id: &A::Id) -> Result<Versioned<A>, PortError> {
        let key = id.key(A::KIND);
        self.load(id).await?.ok_or_else(|| {
            PortError::broken(
                format!("{key} is not in the store"),
                "check the id, or restore a backup that has it",
            )
        })
    }

    /// Lists states, to look at: they may lag, and can't be committed on (Rule 3).
    pub async fn find<A: Aggregate>(
        &self,
        by: By<'_>,
        page: Page,
    ) -> Result<(Vec<A>, Option<String>), PortError> {
        let listing = self.0.find(A::KIND, by, page).await?;
        let states = listing.rows.iter().map(|r| read(&r.key, &r.body)).collect::<Result<_, _>>()?;
        Ok((states, listing.next))
    }

    /// Lists all states, page after page, without those that can't be read: one damaged row is in nobody else's way.
    /// Their keys, and why.
    pub async fn find_readable<A: Aggregate>(
        &self,
        by: By<'_>,
    ) -> Result<(Vec<A>, Vec<PortError>), PortError> {
        let (mut states, mut unreadable) = (vec![], vec![]);
        let mut page = Page::default();
        loop {
            let listing = self.0.find(A::KIND, by, page).await?;
            for row in &listing.rows {
                match read(&row.key, &row.body) {
                    Ok(state) => states.push(state),
                    Err(e) => unreadable.push(e),
                }
            }
            match listing.next {
                None => return Ok((states, unreadable)),
                Some(after) => page = Page { limit: 0, after: Some(after) },
            }
        }
    }

    /// Lists all states, page after page.
    pub async fn find_all<A: Aggregate>(&self, by: By<'_>) -> Result<Vec<A>, PortError> {
        let (states, unreadable) = self.find_readable(by).await?;
        match unreadable.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(states),
        }
    }

    /// Reads a counter.
    pub async fn counter(&self, counter: &str) -> Result<Vec<CounterRead>, PortError> {
        self.0.counter(counter).await
    }

    /// Writes all of a commit or nothing of it. Where the answer is lost the same bytes go again; a condition that
    /// fails on a row which this very commit wrote means that it was written (Rule 2).
    pub async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        commit.check().map_err(CommitError::NotApplied)?;
        let commit = commit.sealed();
        // Once an answer was lost, a later "no" speaks of the resend alone.
        let mut lost = None;
        for _ in 0..=RESENDS {
            match self.0.write(&commit).await {
                Ok(Committed::Yes) => return Ok(Committed::Yes),
                Ok(Committed::Conflict(conflicts)) => {
                    return match (self.settle(&commit).await, lost) {
                        (Ok(Settled::Ours), _) => Ok(Committed::Yes),
                        (Ok(Settled::NotOurs), _) | (Ok(Settled::Open), None) => {
                            Ok(Committed::Conflict(conflicts))
                        }
                        (Ok(Settled::Open), Some(lost)) => Err(CommitError::Unknown(lost)),
                        (Err(e), None) => Err(CommitError::NotApplied(e)),
                        (Err(e), Some(_)) => Err(CommitError::Unknown(e)),
                    };
                }
                Err(CommitError::NotApplied(e)) if lost.is_none() => return Err(CommitError::NotApplied(e)),
                Err(CommitError::NotApplied(_)) => {}
                Err(CommitError::Unknown(e)) => lost = Some(e),
            }
        }
        match self.settle(&commit).await {
            Ok(Settled::Ours) => Ok(Committed::Yes),
            Ok(Settled::NotOurs | Settled::Open) | Err(_) => {
                let nobody = || PortError::unavailable("the store", "its answers were lost");
                Err(CommitError::Unknown(lost.unwrap_or_else(nobody)))
            }
        }
    }

    /// Whether the rows of a commit were written by it. Each version of a row is written by one commit, so a row that
    /// went past the commit's version says nothing, and any other says all.
    async fn settle(&self, commit: &Commit) -> Result<Settled, PortError> {
        for op in &commit.ops {
            let Op::Put { row, .. } = op else { continue };
            match self.0.get(&row.key).await? {
                Some(found) if found.commit == commit.id => return Ok(Settled::Ours),
                Some(found) if found.version > row.version => {}
                Some(_) | None => return Ok(Settled::NotOurs),
            }
        }
        Ok(Settled::Open)
    }
}

/// Who wrote the rows of a commit.
enum Settled {
    Ours,
    NotOurs,
    /// Others wrote all of them since.
    Open,
}

fn read<A: Aggregate>(key: &Key, body: &[u8]) -> Result<A, PortError> {
    serde_json::from_slice(body).map_err(|e| {
        PortError::broken_by(
            format!("{key} is not readable: {e}"),
            "it was written by another version or damaged; restore a backup or upgrade",
            e,
        )
    })
}
