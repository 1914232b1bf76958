//! The typed store over any database: load, find, commit.

use std::sync::Arc;

use domain::aggregate::Address;
use domain::{Aggregate, Key, Versioned};

use crate::commit::{Commit, CommitError, Committed};
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
            PortError::broken(format!("{key} is not in the store"), "check the id, or restore a backup that has it")
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

    /// Lists all states, page after page.
    pub async fn find_all<A: Aggregate>(&self, by: By<'_>) -> Result<Vec<A>, PortError> {
        let mut all = vec![];
        let mut page = Page::default();
        loop {
            let (states, next) = self.find(by, page).await?;
            all.extend(states);
            match next {
                None => return Ok(all),
                Some(after) => page = Page { limit: 0, after: Some(after) },
            }
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
        let mut resends = 0;
        loop {
            match self.0.write(&commit).await {
                Ok(Committed::Yes) => return Ok(Committed::Yes),
                Ok(Committed::Conflict(conflicts)) => {
                    let ours = self.wrote(&commit).await.map_err(|e| {
                        // A conflict that can't be told from our own write is unknown only after a resend.
                        if resends > 0 { CommitError::Unknown(e) } else { CommitError::NotApplied(e) }
                    })?;
                    return Ok(if ours { Committed::Yes } else { Committed::Conflict(conflicts) });
                }
                Err(CommitError::NotApplied(e)) => return Err(CommitError::NotApplied(e)),
                Err(CommitError::Unknown(_)) if resends < RESENDS => resends += 1,
                Err(CommitError::Unknown(e)) => {
                    return match self.wrote(&commit).await {
                        Ok(true) => Ok(Committed::Yes),
                        Ok(false) | Err(_) => Err(CommitError::Unknown(e)),
                    };
                }
            }
        }
    }

    async fn wrote(&self, commit: &Commit) -> Result<bool, PortError> {
        let Some(anchor) = commit.anchor() else { return Ok(false) };
        Ok(self.0.get(anchor).await?.is_some_and(|row| row.commit == commit.id))
    }
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
