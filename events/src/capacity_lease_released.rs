//! CapacityLeaseReleased: Capacity was released or expired.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// Capacity was released or expired. Topic `capacity.leases.v1.capacity-lease-released`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityLeaseReleased {
    /// The lease.
    pub lease_id: LeaseId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// What held it.
    pub holder_kind: HolderKind,
    /// Who held it.
    pub holder_id: String,
    /// Where.
    pub pool_id: PoolId,
    /// Released or Expired.
    pub state: LeaseState,
    /// Seconds from grant to end.
    pub execution_seconds: u64,
}
