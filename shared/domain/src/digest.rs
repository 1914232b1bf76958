//! SHA-256 digests, and JSON in one canonical form to take them of.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// SHA-256 as 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(hex::encode(Sha256::digest(bytes)))
    }
    /// Of a value's canonical JSON: object keys sorted, no spaces.
    pub fn of_json(value: &impl Serialize) -> serde_json::Result<Digest> {
        canonical(value).map(|bytes| Digest::of(&bytes))
    }
    /// Takes 64 hex digits.
    pub fn parse(text: &str) -> Option<Digest> {
        let fits = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        fits.then(|| Digest(text.to_ascii_lowercase()))
    }
    /// All digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The first 12 digits, for tables.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value's canonical JSON. `Value` keeps its keys sorted, so one pass through it is enough.
pub fn canonical(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&sorted(serde_json::to_value(value)?))
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().map(|(k, v)| (k, sorted(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
