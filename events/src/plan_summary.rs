//! What a plan would do, in numbers, and whether somebody has to agree.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of resources by what would happen to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanSummary {
    /// Resources to create.
    pub adds: u32,
    /// Resources to change in place.
    pub changes: u32,
    /// Resources to delete.
    pub deletes: u32,
    /// Resources to delete and create anew; each counts as a delete where deletes are governed.
    pub replaces: u32,
    /// Resources that stay as they are.
    pub unchanged: u32,
    /// Deletes and replaces of protected resource types.
    pub protected: u32,
    /// SHA-256 of the plan file: what an approval of this plan binds.
    pub digest: String,
    /// Set where the run waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_required: Option<ApprovalRequired>,
}

/// Why a person has to decide, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequired {
    /// One sentence.
    pub reason: String,
    /// When waiting ends in Rejected.
    pub expires_at: DateTime<Utc>,
}
