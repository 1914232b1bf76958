//! What a database implements: rows and operations. It knows no aggregate.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use domain::{Key, Kind, Version};
use events::{EnvironmentId, TenantId};

use crate::commit::{Commit, CommitError, CommitId, Committed};
use crate::error::PortError;

/// A row as it was read: strongly consistent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowRead {
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: Version,
    /// The commit that wrote it.
    pub commit: CommitId,
    /// Its state, as JSON.
    pub body: Vec<u8>,
}

/// A counter as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterRead {
    /// The limit's name.
    pub name: String,
    /// What is free; negative after a limit was lowered.
    pub free: i64,
    /// The limit.
    pub limit: i64,
}

/// What a listing is by. Listings are hints: they may lag, and what they return can't be committed on (Rule 3).
#[derive(Debug, Clone, Copy)]
pub enum By<'a> {
    /// All of a tenant.
    Tenant(&'a TenantId),
    /// Those of a tenant whose key begins so.
    Beginning(&'a TenantId, &'a Key),
    /// Those of a tenant, or of one of its environments, that have a time at which they began: the newest first, and of
    /// one millisecond the greatest key first.
    Newest(&'a TenantId, Option<&'a EnvironmentId>, Behind<'a>),
    /// Those of an environment that somebody has to look at again: all that haven't ended.
    Living(&'a TenantId, &'a EnvironmentId),
    /// All whose due time has come.
    Due(DateTime<Utc>),
    /// All.
    All,
}

/// Where the first page begins.
#[derive(Debug, Clone, Copy)]
pub enum Behind<'a> {
    /// With the newest.
    Nothing,
    /// Behind that which began at this time and has this key.
    This(DateTime<Utc>, &'a Key),
}

/// A piece of a listing.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// At most so many; 0 means 100.
    pub limit: u32,
    /// Where the piece before ended.
    pub after: Option<String>,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The rows: the newest first, where that is asked; of a tenant, of a beginning and of what lives by key; else in
    /// any order.
    pub rows: Vec<RowRead>,
    /// Where the next piece begins.
    pub next: Option<String>,
}

/// A database.
#[async_trait]
pub trait Rows: Send + Sync {
    /// Reads a row.
    async fn get(&self, key: &Key) -> Result<Option<RowRead>, PortError>;
    /// Lists rows.
    async fn find(&self, kind: Kind, by: By<'_>, page: Page) -> Result<Listing, PortError>;
    /// Writes all of a commit or nothing of it.
    async fn write(&self, commit: &Commit) -> Result<Committed, CommitError>;
    /// Reads a counter's limits, by name; empty where there is none.
    async fn counter(&self, counter: &str) -> Result<Vec<CounterRead>, PortError>;
}
