//! Policy decisions with their evidence.

use async_trait::async_trait;
use domain::plan::PlanStep;
use domain::routing::Verdict;
use events::{
    EnvironmentClass, EnvironmentId, PlanSummary, Principal, ProjectId, ProvisioningKind, TenantId,
};

use crate::error::PortError;

/// What is asked about a plan.
#[derive(Debug, Clone)]
pub struct ApplyQuestion {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its project.
    pub project: ProjectId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// The environment's class.
    pub class: EnvironmentClass,
    /// Why the run exists.
    pub kind: ProvisioningKind,
    /// Who asked for it.
    pub requested_by: Principal,
    /// What it would do.
    pub summary: PlanSummary,
    /// Step by step.
    pub steps: Vec<PlanStep>,
}

/// Decides.
#[async_trait]
pub trait PolicyEngine: Send + Sync {
    /// Whether a plan may be applied without a person.
    async fn may_apply(&self, question: &ApplyQuestion) -> Result<Verdict, PortError>;
    /// Whether somebody may put an event of a topic on the bus.
    async fn may_publish(
        &self,
        principal: &Principal,
        topic: &str,
        source: &str,
    ) -> Result<Verdict, PortError>;
    /// Resource types whose deletion or replacement in production waits for approval of the plan; an entry may end
    /// with `*`.
    fn protected_types(&self) -> &[String];
}
