//! ProvisioningFailed: The plan or the apply failed; the receipt names the failing resource.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// The plan or the apply failed; the receipt names the failing resource. Topic `provisioning.runs.v1.provisioning-failed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningFailed {
    /// The run.
    pub provisioning_run_id: ProvisioningRunId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// Why it existed.
    pub kind: ProvisioningKind,
    /// The promotion that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion_id: Option<PromotionId>,
    /// What happened and what to do next.
    pub reason: String,
}
