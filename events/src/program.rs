//! What a specification points at: a program in Git, and references to configuration and secrets.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A full Git commit hash: 40 (SHA-1) or 64 (SHA-256) lower-case hex digits. A branch or a short hash moves; a
/// full one doesn't, so what was approved is what is applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"))]
pub struct CommitHash(String);

/// A text that is no full commit hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "commit {0:?} is not a full commit hash; resolve it first with `git rev-parse {0}` (or use `runtime-cloud promote`, which does)"
)]
pub struct CommitHashError(pub String);

impl CommitHash {
    /// Takes 40 or 64 hex digits.
    pub fn new(text: impl Into<String>) -> Result<Self, CommitHashError> {
        let text = text.into();
        let full = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if full { Ok(Self(text.to_ascii_lowercase())) } else { Err(CommitHashError(text)) }
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
impl TryFrom<String> for CommitHash {
    type Error = CommitHashError;
    fn try_from(text: String) -> Result<Self, CommitHashError> {
        Self::new(text)
    }
}
impl From<CommitHash> for String {
    fn from(hash: CommitHash) -> String {
        hash.0
    }
}
impl fmt::Display for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A Pulumi program at one commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// URL or absolute path of the Git repository.
    pub repository: String,
    /// Folder of the program in the repository; "." for its root.
    pub path: String,
    /// The full commit.
    pub commit: CommitHash,
}

/// A configuration value by reference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRef {
    /// The program's configuration key, `project:key` or `key`.
    pub key: String,
    /// The name of the value in the Config Platform.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// A secret by reference; never its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// The program's configuration key, `project:key` or `key`.
    pub key: String,
    /// The name of the secret in the Secret Broker.
    #[serde(rename = "ref")]
    pub reference: String,
}
