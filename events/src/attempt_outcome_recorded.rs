//! AttemptOutcomeRecorded: An attempt ended; its lease can go.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// An attempt ended; its lease can go. Topic `runs.attempts.v1.attempt-outcome-recorded`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptOutcomeRecorded {
    /// The attempt.
    pub attempt_id: AttemptId,
    /// Its run.
    pub run_id: RunId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// How it ended.
    pub outcome: String,
    /// When.
    pub recorded_at: DateTime<Utc>,
}
