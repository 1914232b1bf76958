//! CapacityLeaseGranted: Capacity was granted in a pool.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// Capacity was granted in a pool. Topic `capacity.leases.v1.capacity-lease-granted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityLeaseGranted {
    /// The lease.
    pub lease_id: LeaseId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// What holds it.
    pub holder_kind: HolderKind,
    /// Who holds it.
    pub holder_id: String,
    /// Where.
    pub pool_id: PoolId,
    /// Until when, unless renewed.
    pub expires_at: DateTime<Utc>,
}
