//! Rows as items: one attribute for what is decided on, few for what it is found by.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};
use domain::aggregate::encode;
use domain::{Digest, Key, Kind, Version};
use events::{EnvironmentId, TenantId};
use ports::commit::{CommitId, Letter, Row};
use ports::rows::RowRead;
use ports::stored_letter::StoredLetter;
use ports::{PortError, commit};

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// The key of an index: an environment of a tenant.
pub(crate) fn owner(tenant: &TenantId, environment: Option<&EnvironmentId>) -> String {
    let environment = environment.map(|e| encode(e.as_str())).unwrap_or_default();
    format!("{}/{environment}", encode(tenant.as_str()))
}

/// The key of an order by time; one time's are in the order of their keys.
pub(crate) fn begun(at: DateTime<Utc>, key: &Key) -> String {
    format!("{:013}/{}", at.timestamp_millis(), key.text)
}

/// Where a body lies.
pub(crate) enum Body<'a> {
    Here(&'a [u8]),
    /// It is long, and lies in the bucket under its digest: each kilobyte of an item is a write unit.
    InBucket(Digest),
}

pub(crate) fn put(
    row: &Row,
    body: &Body<'_>,
    letters: &[Letter],
    commit: CommitId,
) -> Result<Item, PortError> {
    let broken = |e: String| PortError::broken(format!("{} can't be written: {e}", row.key), "report this");
    let facets = &row.facets;
    let mut item = Item::from([
        ("key".to_owned(), text(&row.key.text)),
        ("version".to_owned(), number(row.version.0)),
        ("commit".to_owned(), text(commit.0)),
        ("tenant".to_owned(), text(facets.tenant.as_str())),
        ("state".to_owned(), text(facets.state)),
    ]);
    if let Some(environment) = &facets.environment {
        item.insert("owner".to_owned(), text(owner(&facets.tenant, Some(environment))));
    }
    if let Some(pool) = &facets.pool {
        item.insert("pool".to_owned(), text(pool.as_str()));
    }
    if let Some(at) = facets.begun {
        item.insert("begun".to_owned(), text(begun(at, &row.key)));
    }
    if let Some(due) = facets.due {
        // Only what somebody has to look at again is in this index.
        item.insert("living".to_owned(), text(owner(&facets.tenant, facets.environment.as_ref())));
        item.insert("due".to_owned(), number(due.timestamp_millis()));
    }
    match body {
        Body::Here(bytes) => {
            let json = std::str::from_utf8(bytes).map_err(|e| broken(e.to_string()))?;
            item.insert("body".to_owned(), text(json));
        }
        Body::InBucket(digest) => {
            item.insert("bodyDigest".to_owned(), text(digest.as_str()));
        }
    }
    if !letters.is_empty() {
        let stored = letters.iter().map(StoredLetter::of).collect::<Result<Vec<_>, _>>();
        let json = stored.and_then(|s| serde_json::to_string(&s)).map_err(|e| broken(e.to_string()))?;
        item.insert("letters".to_owned(), text(json));
    }
    Ok(item)
}

/// An item as it was read; the body is missing where it lies in the bucket.
pub(crate) struct Read {
    pub row: RowRead,
    pub in_bucket: Option<Digest>,
}

pub(crate) fn read(kind: Kind, item: &Item) -> Result<Read, PortError> {
    let field = |name: &str| item.get(name).and_then(|v| v.as_s().ok());
    let number = |name: &str| item.get(name).and_then(|v| v.as_n().ok());
    let broken = |name: &str| {
        PortError::broken(
            format!("an item of table {} has no {name}", kind.table()),
            "somebody else wrote it; restore it from a backup",
        )
    };
    let key = field("key").ok_or_else(|| broken("key"))?;
    let version = number("version").and_then(|v| v.parse().ok()).ok_or_else(|| broken("version"))?;
    let commit = field("commit").and_then(|c| c.parse().ok()).ok_or_else(|| broken("commit"))?;
    let in_bucket = field("bodyDigest").and_then(|d| Digest::parse(d));
    let body = match (&in_bucket, field("body")) {
        (None, Some(body)) => body.clone().into_bytes(),
        (Some(_), _) => vec![],
        (None, None) => return Err(broken("body")),
    };
    let row = RowRead {
        key: Key { kind, text: key.clone() },
        version: Version(version),
        commit: commit::CommitId(commit),
        body,
    };
    Ok(Read { row, in_bucket })
}

/// Attributes of a counter: what is free, and the limit, by name. They are flat, as an update can set only these
/// without knowing whether the item is there.
pub(crate) fn free(name: &str) -> String {
    format!("free:{name}")
}

pub(crate) fn limit(name: &str) -> String {
    format!("limit:{name}")
}

pub(crate) fn amount(item: &Item, attribute: &str) -> Option<i64> {
    item.get(attribute)?.as_n().ok()?.parse().ok()
}
