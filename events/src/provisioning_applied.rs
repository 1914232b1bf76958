//! ProvisioningApplied: The desired state was applied; outputs are recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// The desired state was applied; outputs are recorded. Topic `provisioning.runs.v1.provisioning-applied`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningApplied {
    /// The run.
    pub provisioning_run_id: ProvisioningRunId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// Why it existed.
    pub kind: ProvisioningKind,
    /// The promotion that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion_id: Option<PromotionId>,
    /// The version that is now in force.
    pub specification_version: u32,
    /// Outputs of the program; secret ones masked.
    pub outputs: serde_json::Value,
}
