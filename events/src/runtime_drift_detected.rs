//! RuntimeDriftDetected: Observed state differs from the declared specification.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// Observed state differs from the declared specification. Topic `provisioning.inventory.v1.runtime-drift-detected`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeDriftDetected {
    /// The finding.
    pub finding_id: FindingId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// How it differs.
    pub kind: DriftKind,
    /// What differs.
    pub resource: String,
}
