//! ObservedStateChanged: An environment's observed state changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// An environment's observed state changed. Topic `provisioning.inventory.v1.observed-state-changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedStateChanged {
    /// The environment.
    pub environment_id: EnvironmentId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its project.
    pub project_id: ProjectId,
    /// The release that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_release_id: Option<ReleaseId>,
    /// What changed: versions, replicas, health, staleness.
    pub changes: serde_json::Value,
    /// Not observed within the staleness window.
    pub stale: bool,
}
