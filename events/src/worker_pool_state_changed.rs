//! WorkerPoolStateChanged: A pool changed state or size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// A pool changed state or size. Topic `capacity.pools.v1.worker-pool-state-changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerPoolStateChanged {
    /// The pool.
    pub pool_id: PoolId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// What runs on it.
    pub kind: PoolKind,
    /// Before.
    pub from_state: PoolState,
    /// After.
    pub to_state: PoolState,
    /// Nodes now.
    pub current_size: u32,
}
