//! A person has decided on a plan. The approval is recorded on the run; the Applier acts.

use domain::aggregate::Scoped;
use domain::environment_slot::SlotCommand;
use domain::provisioning_run::{PlanApproval, RunCommand, RunState};
use domain::{Digest, EnvironmentSlot, ProvisioningRun, decided_at};
use events::{ApprovalDecided, Decision, Envelope};
use ports::{Cx, Store};

use crate::catalog::{APPLY_APPROVAL, Row};
use crate::turns;
use crate::work::{Fault, Worker};

/// The handler.
pub struct ApplyApproval {
    /// The store.
    pub store: Store,
}

impl Worker for ApplyApproval {
    const ROW: &'static Row = &APPLY_APPROVAL;
    type Input = Envelope;
    /// The run's state after.
    type Report = &'static str;

    fn key(input: &Envelope) -> String {
        input.data.get("approvalId").and_then(|v| v.as_str()).unwrap_or(&input.id).to_owned()
    }
    fn group(input: &Envelope) -> String {
        input.data.get("provisioningRunId").and_then(|v| v.as_str()).unwrap_or(&input.id).to_owned()
    }

    async fn run(&self, input: Envelope, cx: &Cx) -> Result<&'static str, Fault> {
        let event: ApprovalDecided = input.read().map_err(|e| Fault::Never(Box::new(e)))?;
        decide(&self.store, &event, cx).await
    }
}

/// Records a decision: from the bus, or from a person at the API.
pub async fn decide(store: &Store, event: &ApprovalDecided, cx: &Cx) -> Result<&'static str, Fault> {
    decided_at::check(event.decided_at, cx.now).map_err(|e| Fault::Never(Box::new(e)))?;
    // load
    let id = Scoped::new(event.tenant_id.clone(), event.provisioning_run_id);
    let run = store.need::<ProvisioningRun>(&id).await?;
    if stands(&run, event) {
        return Ok(run.state.state().as_str());
    }
    let slot = Scoped::new(run.tenant.clone(), run.environment.clone());
    let slot = store.need::<EnvironmentSlot>(&slot).await?;
    // decide
    let plan_digest = Digest::parse(&event.plan_digest).ok_or_else(|| {
        let problem = format!(
            "planDigest {:?} is no SHA-256; send the digest of the plan that was read",
            event.plan_digest
        );
        Fault::Never(problem.into())
    })?;
    let reason = event.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
    let command = match event.decision {
        Decision::Approved => RunCommand::Approve {
            approval: PlanApproval {
                approval: event.approval_id,
                by: event.decided_by.clone(),
                at: event.decided_at,
                expires_at: event.expires_at,
                plan_digest,
            },
        },
        Decision::Rejected => RunCommand::Reject { by: event.decided_by.clone(), reason, plan_digest },
        Decision::Expired => RunCommand::Expire,
    };
    let change = run.decide(command, cx.now).map_err(Fault::refused)?;
    let state = change.after().state.state().as_str();
    // commit: the decision, the place in the queue and the message leave together
    if change.after().is_ready_to_apply() {
        let place = slot.decide(SlotCommand::Return { run: run.id }, cx.now).map_err(Fault::refused)?;
        turns::commit(store, change, &slot, place, cx).await?;
    } else {
        turns::leave(store, change, &slot, cx).await?;
    }
    Ok(state)
}

/// Whether a run has gone on from this very decision: it came a second time, and late.
fn stands(run: &ProvisioningRun, event: &ApprovalDecided) -> bool {
    match (event.decision, &run.state) {
        (Decision::Approved, RunState::AwaitingApproval { .. }) => false,
        (Decision::Approved, _) => run.approved.as_ref().is_some_and(|given| {
            given.approval == event.approval_id && given.plan_digest.as_str() == event.plan_digest
        }),
        (Decision::Rejected, RunState::Rejected { by, .. }) => by.as_ref() == Some(&event.decided_by),
        (Decision::Expired, RunState::Rejected { by, .. }) => by.is_none(),
        (Decision::Rejected | Decision::Expired, _) => false,
    }
}
