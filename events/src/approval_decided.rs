//! ApprovalDecided: Somebody decided on one plan of one run.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// Somebody decided on one plan of one run. Topic `control.approvals.v1.approval-decided`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecided {
    /// The approval.
    pub approval_id: ApprovalId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// The run.
    pub provisioning_run_id: ProvisioningRunId,
    /// The plan that was read: SHA-256 of the plan file.
    pub plan_digest: String,
    /// What was decided.
    pub decision: Decision,
    /// Who decided.
    pub decided_by: Principal,
    /// When.
    pub decided_at: DateTime<Utc>,
    /// Until when the approval may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Go on.
    Approved,
    /// Don't.
    Rejected,
    /// Nobody decided in time.
    Expired,
}
