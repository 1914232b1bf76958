//! Rows and operations on SQLite.

use std::str::FromStr;

use async_trait::async_trait;
use domain::{Key, Kind, Version};
use events::{EnvironmentId, TenantId};
use ports::PortError;
use ports::commit::{Commit, CommitError, CommitId, Committed, Op};
use ports::rows::{Behind, By, CounterRead, Listing, Page, RowRead, Rows};
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

/// How many rows a page has at most.
fn limit(page: &Page) -> i64 {
    i64::from(if page.limit == 0 { 100 } else { page.limit })
}

/// A page, and where the next one begins, if this one is full.
fn listing(rows: Vec<RowRead>, limit: i64, end: impl Fn(&RowRead) -> String) -> Listing {
    let full = i64::try_from(rows.len()).unwrap_or(i64::MAX) == limit;
    let next = if full { rows.last().map(end) } else { None };
    Listing { rows, next }
}

impl SqliteRows {
    /// The newest first. A page ends at a time and a key.
    async fn newest(
        &self,
        kind: Kind,
        (tenant, environment): (&TenantId, Option<&EnvironmentId>),
        behind: Behind<'_>,
        page: Page,
    ) -> Result<Listing, PortError> {
        let limit = limit(&page);
        let (begun, key) = match (page.after, behind) {
            (Some(after), _) => place(&after)?,
            (None, Behind::This(at, key)) => (millis(at), key.text.clone()),
            (None, Behind::Nothing) => (i64::MAX, String::new()),
        };
        let (tenant, environment) = (tenant.to_string(), environment.map(ToString::to_string));
        let of = if environment.is_some() { "environment = ?5" } else { "?5 IS NULL" };
        let sql = format!(
            "SELECT key, version, commit_id, body, begun FROM {} WHERE tenant = ?4 AND {of}
             AND begun IS NOT NULL AND (begun, key) < (?1, ?2) ORDER BY begun DESC, key DESC LIMIT ?3",
            kind.table()
        );
        let rows = self
            .0
            .read(move |c| {
                let mut statement = c.prepare_cached(&sql)?;
                let read = row_read(kind);
                let with_time = |row: &Row<'_>| Ok((read(row)?, row.get::<_, i64>(4)?));
                let rows = statement.query_map(params![begun, key, limit, tenant, environment], with_time)?;
                rows.collect::<rusqlite::Result<Vec<_>>>()
            })
            .await?;
        let last = rows.last().map(|(_, begun)| *begun).unwrap_or_default();
        let rows = rows.into_iter().map(|(row, _)| row).collect();
        Ok(listing(rows, limit, |row| format!("{last}/{}", row.key.text)))
    }
}

fn place(after: &str) -> Result<(i64, String), PortError> {
    let parts = after.split_once('/').and_then(|(begun, key)| Some((begun.parse().ok()?, key.to_owned())));
    parts.ok_or_else(|| PortError::broken("that is no end of a page", "ask for the first page again"))
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
        let limit = limit(&page);
        let after = page.after.clone().unwrap_or_default();
        let (filter, first, second) = match by {
            By::Tenant(tenant) => ("tenant = ?3 AND ?4 IS NULL", Some(tenant.to_string()), None),
            By::Beginning(tenant, key) => (
                "tenant = ?3 AND substr(key, 1, length(?4)) = ?4 AND key >= ?4",
                Some(tenant.to_string()),
                Some(key.text.clone()),
            ),
            By::Living(tenant, environment) => (
                "tenant = ?3 AND environment = ?4 AND due IS NOT NULL",
                Some(tenant.to_string()),
                Some(environment.to_string()),
            ),
            By::Due(now) => {
                ("due <= CAST(?3 AS INTEGER) AND ?4 IS NULL", Some(millis(now).to_string()), None)
            }
            By::Newest(tenant, environment, behind) => {
                return self.newest(kind, (tenant, environment), behind, page).await;
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
        Ok(listing(rows, limit, |row| row.key.text.clone()))
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
