//! SandboxReleased: A sandbox was given back.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// A sandbox was given back. Topic `tools.sandboxes.v1.sandbox-released`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxReleased {
    /// The sandbox.
    pub sandbox_id: SandboxId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// When.
    pub released_at: DateTime<Utc>,
}
