//! QuotaChanged: An effective quota changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// An effective quota changed. Topic `capacity.quotas.v1.quota-changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaChanged {
    /// The quota.
    pub quota_id: QuotaId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its project, if it is a project's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Runs at once.
    pub concurrent_runs: u32,
    /// Sandboxes at once.
    pub concurrent_sandboxes: u32,
}
