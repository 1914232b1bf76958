//! ProvisioningPlanned: A plan exists and may await approval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// A plan exists and may await approval. Topic `provisioning.runs.v1.provisioning-planned`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningPlanned {
    /// The run.
    pub provisioning_run_id: ProvisioningRunId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// Why it exists.
    pub kind: ProvisioningKind,
    /// The promotion that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion_id: Option<PromotionId>,
    /// What it would do.
    pub plan_summary: PlanSummary,
}
