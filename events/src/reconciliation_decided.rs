//! ReconciliationDecided: A proposal was accepted or rejected.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// A proposal was accepted or rejected. Topic `provisioning.inventory.v1.reconciliation-decided`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReconciliationDecided {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// Accepted or Rejected.
    pub state: ProposalState,
    /// The run that an acceptance planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_run_id: Option<ProvisioningRunId>,
}
