//! Identifiers. A text id belongs to a neighbour and is taken as it comes; a guid is ours or a neighbour's.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Why a text was refused as an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing was given.
    #[error("{what} is empty; give 1 to 128 characters")]
    Empty {
        /// The identifier's name.
        what: &'static str,
    },
    /// Longer than a key may be.
    #[error("{what} has {length} characters; at most 128 are allowed")]
    TooLong {
        /// The identifier's name.
        what: &'static str,
        /// How many characters came.
        length: usize,
    },
    /// Longer than a key may be, as it is written there.
    #[error(
        "{what} takes {bytes} bytes as it stands in keys; at most 300 are allowed: letters, digits, _ and - take one each, and any other byte takes three"
    )]
    TooWide {
        /// The identifier's name.
        what: &'static str,
        /// How many bytes it takes.
        bytes: usize,
    },
    /// A control character would break logs, tables and keys; one that turns the text around would show another id.
    #[error("{what} contains a control character, or one that changes the direction of text; remove it")]
    Control {
        /// The identifier's name.
        what: &'static str,
    },
}

/// Whether a text holds what no log, table or key shows as it is: control characters, and those that turn the
/// direction of text around.
pub fn is_unshowable(text: &str) -> bool {
    let turns = |c: char| matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    text.chars().any(|c| c.is_control() || turns(c))
}

/// These stand percent-encoded in keys of rows and of objects, both in one, and such a key has 1024 bytes.
const IN_KEYS: [&str; 2] = ["tenantId", "environmentId"];
const LONGEST_IN_KEY: usize = 300;

fn checked(what: &'static str, text: String) -> Result<String, IdError> {
    let length = text.chars().count();
    if text.trim().is_empty() {
        return Err(IdError::Empty { what });
    }
    if length > 128 {
        return Err(IdError::TooLong { what, length });
    }
    if is_unshowable(&text) {
        return Err(IdError::Control { what });
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let bytes: usize = text.bytes().map(|b| if plain(b) { 1 } else { 3 }).sum();
    if bytes > LONGEST_IN_KEY && IN_KEYS.contains(&what) {
        return Err(IdError::TooWide { what, bytes });
    }
    Ok(text)
}

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String", extend("minLength" = 1, "maxLength" = 128))]
        pub struct $name(String);

        impl $name {
            /// Takes a text of 1 to 128 characters without control characters.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                checked($what, text.into()).map(Self)
            }
            /// The text as it came.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

macro_rules! guid {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map(Self)
            }
        }
    )*};
}

text_id! {
    /// Whose data it is. In every key.
    TenantId = "tenantId";
    /// A project of a tenant.
    ProjectId = "projectId";
    /// An environment; unique over all tenants, owned by the one that its EnvironmentCreated named.
    EnvironmentId = "environmentId";
    /// A worker pool.
    PoolId = "poolId";
    /// A sandbox of the tool executor.
    SandboxId = "sandboxId";
    /// Who asked or decided: a person or a service, as the identity platform names it.
    Principal = "principal";
}

guid! {
    /// One deployment specification: a program for an environment, over all its versions.
    SpecificationId;
    /// One plan-and-apply.
    ProvisioningRunId;
    /// A promotion of the delivery platform.
    PromotionId;
    /// An approval of the control platform.
    ApprovalId;
    /// The release that a promotion carries.
    ReleaseId;
    /// One difference between declared and observed.
    FindingId;
    /// One reviewable change.
    ProposalId;
    /// One quota.
    QuotaId;
    /// One grant of capacity.
    LeaseId;
    /// A run of Run Control (not a provisioning run).
    RunId;
    /// An attempt of Run Control.
    AttemptId;
    /// One event; derived from the row that carried it, never random.
    EventId;
}
