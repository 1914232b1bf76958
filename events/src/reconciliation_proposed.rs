//! ReconciliationProposed: A reviewable reconciliation awaits an Operator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// A reviewable reconciliation awaits an Operator. Topic `provisioning.inventory.v1.reconciliation-proposed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReconciliationProposed {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// Which side wins.
    pub direction: Direction,
    /// It would delete or replace something.
    pub destructive: bool,
}
