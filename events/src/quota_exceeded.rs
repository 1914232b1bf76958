//! QuotaExceeded: A lease was denied by a quota; the holder waits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// A lease was denied by a quota; the holder waits. Topic `capacity.quotas.v1.quota-exceeded`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaExceeded {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// What asked.
    pub holder_kind: HolderKind,
    /// Who asked.
    pub holder_id: String,
    /// The limit that binds, as `name used/limit`.
    pub limit: String,
}
