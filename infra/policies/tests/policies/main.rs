//! What the policies answer, and what they refuse to be loaded with.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test ends by panicking")]

mod apply;
mod load;
mod publish;

use domain::plan::{PlanStep, StepOp};
use domain::{Digest, plan};
use events::{EnvironmentClass, EnvironmentId, Principal, ProjectId, ProvisioningKind, TenantId};
use ports::policy_engine::ApplyQuestion;
use runtime_cloud_policies::{CedarPolicies, PolicyError};

fn principal(name: &str) -> Principal {
    Principal::new(name).unwrap()
}

/// A plan with these steps, asked for by Ada.
fn question(kind: ProvisioningKind, class: EnvironmentClass, steps: &[(StepOp, &str)]) -> ApplyQuestion {
    let policies = CedarPolicies::load(None).unwrap();
    let step = |(n, (op, kind)): (usize, &(StepOp, &str))| PlanStep {
        urn: format!("urn:pulumi:s::p::{kind}::r{n}"),
        op: *op,
        resource_type: (*kind).to_owned(),
        changed: vec![],
        values: vec![],
    };
    let steps: Vec<PlanStep> = steps.iter().enumerate().map(step).collect();
    use ports::PolicyEngine;
    ApplyQuestion {
        tenant: TenantId::new("acme").unwrap(),
        project: ProjectId::new("shop").unwrap(),
        environment: EnvironmentId::new("env-1").unwrap(),
        class,
        kind,
        requested_by: principal("ada"),
        summary: plan::summarise(&steps, 3, &Digest::of(b"plan"), policies.protected_types()),
        steps,
    }
}

/// The default policies with one more file.
fn with(text: &str) -> Result<CedarPolicies, PolicyError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("more.cedar"), text).unwrap();
    CedarPolicies::load(Some(folder.path()))
}
