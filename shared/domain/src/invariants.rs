//! The invariants of the two provisioning aggregates, as checks on states. Property tests walk the machines and
//! call these after every step; `runtime-cloud doctor` calls them on what the store holds.

use events::{EnvironmentClass, ProvisioningKind};

use crate::environment_slot::EnvironmentSlot;
use crate::provisioning_run::{ProvisioningRun, RunSource, RunState};
use crate::routing::Authority;

/// What is broken in a run; empty where nothing is.
pub fn of_run(run: &ProvisioningRun) -> Vec<String> {
    let mut broken = vec![];
    let mut must = |holds: bool, what: &str| {
        if !holds {
            broken.push(format!("run {}: {what}", run.id));
        }
    };
    let applied = run.apply.is_some() || matches!(run.state, RunState::Applying { .. } | RunState::Applied);
    must(!applied || run.plan.is_some(), "the plan is recorded before any apply");
    must(run.state.is_final() == run.completed_at.is_some(), "exactly an ended run has an end");
    must(!run.state.is_final() || run.due.is_none(), "an ended run waits for nothing");
    must(run.state.is_final() || run.due.is_some(), "a living run has a time at which somebody looks at it");
    must(
        !matches!(run.state, RunState::Applied) || run.apply.is_some(),
        "an applied run has its apply receipt",
    );
    if let (RunState::Applying { authority, .. } | RunState::PlanRecorded { authority }, Some(plan)) =
        (&run.state, &run.plan)
    {
        let deletes = plan.summary.deletes + plan.summary.replaces;
        let production = plan.inputs.class == EnvironmentClass::Production;
        let evidence = match authority {
            Authority::PlanApproval => matches!(run.state, RunState::Applying { .. }),
            Authority::Acceptance => run.kind() == ProvisioningKind::Reconciliation,
            Authority::PromotionApproval => matches!(run.source, RunSource::Promotion { .. }),
            Authority::Policy { policies } => {
                !policies.is_empty()
                    && (!production
                        || matches!(run.kind(), ProvisioningKind::Baseline | ProvisioningKind::PoolResize))
            }
        };
        must(evidence, "an apply has an approval, or a policy's allow with evidence");
        must(
            !(run.kind() == ProvisioningKind::Reconciliation
                && deletes > 0
                && matches!(authority, Authority::Policy { .. })),
            "a reconciliation with deletes is never applied automatically",
        );
    }
    if let RunState::AwaitingApproval { approval: Some(approval), .. } = &run.state {
        must(approval.by != run.requested_by, "who requested a run doesn't approve it");
        must(
            run.plan.as_ref().is_some_and(|p| p.plan_digest == approval.plan_digest),
            "an approval binds the plan that was read",
        );
    }
    broken
}

/// What is broken in a slot; empty where nothing is.
pub fn of_slot(slot: &EnvironmentSlot) -> Vec<String> {
    let mut broken = vec![];
    let mut must = |holds: bool, what: &str| {
        if !holds {
            broken.push(format!("slot of {}: {what}", slot.environment));
        }
    };
    if let Some(active) = &slot.active {
        must(slot.is_head(active.run), "only the head applies");
        must(active.token.sequence == slot.apply_sequence, "the newest token is the holder's");
    }
    let mut runs: Vec<_> = slot.queue.iter().map(|q| q.run).collect();
    let before = runs.len();
    runs.sort();
    runs.dedup();
    must(runs.len() == before, "a run queues once");
    broken
}
