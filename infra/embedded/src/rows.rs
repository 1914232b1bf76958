//! Rows and operations on SQLite.

use std::str::FromStr;

use async_trait::async_trait;
use domain::{Key, Kind, Version};
use ports::PortError;
use ports::commit::{Commit, CommitError, CommitId, Committed, Op};
use ports::rows::{By, CounterRead, Listing, Page, RowRead, Rows};
use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

use crate::database::{Database, WriteFault, millis};
use crate::letters::LETTERS;
use crate::write;

/// The rows of a database.
#[derive(Clone)]
pub struct SqliteRows(pub Database);

fn row_read(kind: Kind) -> impl Fn(&Row<'_>) -> rusqlite::Result<RowRead> {
    move |row| {
        let version: i64 = row.get(1)?;
        let commit: String = row.get(2)?;
        Ok(RowRead {
            key: Key { kind, text: row.get(0)? },
            version: Version(version.unsigned_abs()),
            commit: CommitId(Uuid::from_str(&commit).unwrap_or_default()),
            body: row.get(3)?,
        })
    }
}

#[async_trait]
impl Rows for SqliteRows {
    async fn get(&self, key: &Key) -> Result<Option<RowRead>, PortError> {
        let key = key.clone();
        self.0
            .read(move |c| {
                let sql =
                    format!("SELECT key, version, commit_id, body FROM {} WHERE key = ?1", key.kind.table());
                c.prepare_cached(&sql)?.query_row([&key.text], row_read(key.kind)).optional()
            })
            .await
    }

    async fn find(&self, kind: Kind, by: By<'_>, page: Page) -> Result<Listing, PortError> {
        let limit = i64::from(if page.limit == 0 { 100 } else { page.limit });
        let after = page.after.unwrap_or_default();
        let (filter, first, second) = match by {
            By::Tenant(tenant) => ("tenant = ?3 AND ?4 IS NULL", Some(tenant.to_string()), None),
            By::Environment(tenant, environment) => {
                ("tenant = ?3 AND environment = ?4", Some(tenant.to_string()), Some(environment.to_string()))
            }
            By::Living(tenant, environment) => (
                "tenant = ?3 AND environment = ?4 AND due IS NOT NULL",
                Some(tenant.to_string()),
                Some(environment.to_string()),
            ),
            By::Due(now) => {
                ("due <= CAST(?3 AS INTEGER) AND ?4 IS NULL", Some(millis(now).to_string()), None)
            }
            By::All => ("?3 IS NULL AND ?4 IS NULL", None, None),
        };
        let sql = format!(
            "SELECT key, version, commit_id, body FROM {} WHERE key > ?1 AND {filter} ORDER BY key LIMIT ?2",
            kind.table()
        );
        let rows = self
            .0
            .read(move |c| {
                let mut statement = c.prepare_cached(&sql)?;
                let rows = statement.query_map(params![after, limit, first, second], row_read(kind))?;
                rows.collect::<rusqlite::Result<Vec<_>>>()
            })
            .await?;
        let full = i64::try_from(rows.len()).unwrap_or(i64::MAX) == limit;
        let next = if full { rows.last().map(|r| r.key.text.clone()) } else { None };
        Ok(Listing { rows, next })
    }

    async fn write(&self, commit: &Commit) -> Result<Committed, CommitError> {
        commit.check().map_err(CommitError::NotApplied)?;
        let carries = |op: &Op| matches!(op, Op::Put { letters, .. } if !letters.is_empty());
        let letters = commit.ops.iter().any(carries);
        let commit = commit.clone();
        match self.0.write(move |c| write::apply(c, &commit)).await {
            Ok(conflicts) if conflicts.is_empty() => {
                if letters {
                    self.0.touched(LETTERS);
                }
                Ok(Committed::Yes)
            }
            Ok(conflicts) => Ok(Committed::Conflict(conflicts)),
            Err(WriteFault::NotApplied(e)) => Err(CommitError::NotApplied(e)),
            Err(WriteFault::Unknown(e)) => Err(CommitError::Unknown(e)),
        }
    }

    async fn counter(&self, counter: &str) -> Result<Vec<CounterRead>, PortError> {
        let counter = counter.to_owned();
        self.0
            .read(move |c| {
                let sql = "SELECT name, free, lim FROM Counters WHERE counter = ?1 ORDER BY name";
                let mut statement = c.prepare_cached(sql)?;
                let rows = statement.query_map([&counter], |r| {
                    Ok(CounterRead { name: r.get(0)?, free: r.get(1)?, limit: r.get(2)? })
                })?;
                rows.collect()
            })
            .await
    }
}
