//! What a person does where the machine can't know: break a run that nothing proves dead, reopen an environment,
//! settle a state with unfinished operations. What breaks a run needs a reason, which stands in its receipt.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::aggregate::Scoped;
use domain::environment_slot::{SlotCommand, StateHead};
use domain::provisioning_run::{Failure, FailureReason, RunState};
use domain::receipt::{ApplyReceipt, ApplyResult, OutcomeRecord};
use domain::{EnvironmentSlot, ProvisioningRun};
use events::{EnvironmentId, Principal, ProvisioningRunId, SpecificationId, TenantId};
use ports::receipts::blob_key;
use ports::rows::By;
use ports::runner::{Phase, Progress};
use ports::{Commit, Cx, Runner};

use crate::finish::Finisher;
use crate::turns;
use crate::work::{Fault, or_again};

/// The commands.
pub struct Recover {
    /// The end of an apply.
    pub finisher: Finisher,
    /// Where Pulumi runs.
    pub runner: Arc<dyn Runner>,
}

impl Recover {
    /// Ends a run that is silent and that nothing proves dead. Its processes may still live: the environment is
    /// closed until a person has looked.
    pub async fn break_run(
        &self,
        tenant: TenantId,
        run: ProvisioningRunId,
        by: Principal,
        reason: String,
        cx: &Cx,
    ) -> Result<(), Fault> {
        // load
        let run = self.finisher.store.need::<ProvisioningRun>(&Scoped::new(tenant, run)).await?;
        let (RunState::Applying { token, authority, since, .. }, Some(plan)) = (&run.state, &run.plan) else {
            return Err(Fault::Never(
                format!("run {} is not being applied; there is nothing to break", run.id).into(),
            ));
        };
        if let Progress::Running = self.runner.look(&run, Phase::Apply).await? {
            let problem =
                format!("run {} lives; stop it with `runtime-cloud runs cancel {}`", run.id, run.id);
            return Err(Fault::Never(problem.into()));
        }
        // decide
        let failure = Failure {
            reason: FailureReason::Interrupted,
            message: format!("{by} broke it: {reason}; nothing proves that its processes are dead"),
        };
        let receipt = ApplyReceipt {
            owner: crate::workers::planner::owner(&run),
            plan_receipt: plan.link.receipt.clone(),
            result: ApplyResult::Failed,
            reason: Some(failure.reason.code().to_owned()),
            message: Some(failure.message.clone()),
            outputs: serde_json::json!({}),
            failing: vec![],
            changes: BTreeMap::new(),
            resources: vec![],
            state: None,
            authority: serde_json::to_value(run.evidence(authority))?,
            token: token.to_string(),
            logs_ref: None,
            runner_version: self.runner.version(),
            started_at: *since,
            completed_at: cx.now,
            duration_ms: 0,
        };
        // commit: closed first, as the end of the run gives its place to the next one
        self.taint(&run, "it was broken by hand while its processes may live", cx).await?;
        self.finisher.end(&run, receipt, Some(failure), false, cx).await?;
        self.runner.clean(run.id, Phase::Apply).await?;
        Ok(())
    }

    async fn taint(&self, run: &ProvisioningRun, why: &str, cx: &Cx) -> Result<(), Fault> {
        let slot = Scoped::new(run.tenant.clone(), run.environment.clone());
        let slot = self.finisher.store.need::<EnvironmentSlot>(&slot).await?;
        let taint = SlotCommand::Taint { run: run.id, reason: why.to_owned() };
        let change = slot.decide(taint, cx.now).map_err(Fault::refused)?;
        or_again(self.finisher.store.commit(Commit::of(change, cx)).await?)
    }

    /// Reopens an environment after a person has looked at its resources: unfinished operations of its states count
    /// as settled too, where `settle` says so.
    pub async fn clear(
        &self,
        tenant: TenantId,
        environment: EnvironmentId,
        settle: bool,
        cx: &Cx,
    ) -> Result<(), Fault> {
        // load
        let slot = self.finisher.store.need::<EnvironmentSlot>(&Scoped::new(tenant, environment)).await?;
        // decide
        let mut change = slot.decide(SlotCommand::Clear, cx.now).map_err(Fault::refused)?;
        if settle {
            for (specification, head) in &slot.specifications {
                let Some(state) = head.state.clone().filter(|s| s.pending_operations) else { continue };
                let repaired = self.settled(&state.digest).await?;
                let state = StateHead { digest: repaired, pending_operations: false, ..state };
                let command = SlotCommand::Settle { specification: *specification, state };
                change = change.then(command, cx.now).map_err(Fault::refused)?;
            }
        }
        let next = match change.after().head().filter(|_| change.after().active.is_none()) {
            Some(head) => Some(turns::wake(&slot.tenant, &slot.environment, head.run, head.approved)?),
            None => None,
        };
        // commit
        or_again(self.finisher.store.commit(Commit::of(change, cx).queue_maybe(next)).await?)
    }

    /// After the store was restored from a backup, before its first write: the states that later applies left are
    /// taken from their outcomes, which no backup of the store brings back, and every older token becomes void
    /// (Rule 27). Twice is once more epoch, and nothing else.
    pub async fn after_restore(&self, cx: &Cx) -> Result<u32, Fault> {
        // load
        let mut newest: BTreeMap<(TenantId, EnvironmentId, SpecificationId), (OutcomeRecord, ApplyReceipt)> =
            BTreeMap::new();
        for key in self.finisher.receipts.list("runs").await? {
            if !key.ends_with("/outcome") {
                continue;
            }
            let Some(bytes) = self.finisher.receipts.get(&key).await? else { continue };
            let outcome: OutcomeRecord = serde_json::from_slice(&bytes)?;
            let Some(blob) = self.finisher.receipts.get(&blob_key(&outcome.receipt)).await? else { continue };
            let receipt: ApplyReceipt = serde_json::from_slice(&blob)?;
            if outcome.state.is_none() {
                continue;
            }
            let owner = &receipt.owner;
            let place = (owner.tenant_id.clone(), owner.environment_id.clone(), owner.specification_id);
            let later =
                |(known, _): &(OutcomeRecord, ApplyReceipt)| known.completed_at < outcome.completed_at;
            if newest.get(&place).is_none_or(later) {
                newest.insert(place, (outcome, receipt));
            }
        }
        let mut rolled = 0;
        for slot in self.finisher.store.find_all::<EnvironmentSlot>(By::All).await? {
            let id = Scoped::new(slot.tenant.clone(), slot.environment.clone());
            let slot = self.finisher.store.need::<EnvironmentSlot>(&id).await?;
            // decide
            let mut change = slot.decide(SlotCommand::RaiseEpoch, cx.now).map_err(Fault::refused)?;
            for ((tenant, environment, specification), (outcome, receipt)) in &newest {
                let known = slot.state_of(*specification).map(|s| &s.digest);
                let ours = *tenant == slot.tenant && *environment == slot.environment;
                let Some(digest) = outcome.state.as_ref().filter(|d| ours && known != Some(*d)) else {
                    continue;
                };
                let state = StateHead {
                    digest: digest.clone(),
                    run: receipt.owner.provisioning_run_id,
                    specification_version: receipt.owner.specification_version,
                    pending_operations: outcome.pending_operations,
                };
                let roll = SlotCommand::RollForward { specification: *specification, state };
                change = change.then(roll, cx.now).map_err(Fault::refused)?;
                rolled += 1;
            }
            // commit
            or_again(self.finisher.store.commit(Commit::of(change, cx)).await?)?;
        }
        Ok(rolled)
    }

    /// A state without its unfinished operations: the person has looked at what they left.
    async fn settled(&self, digest: &domain::Digest) -> Result<domain::Digest, Fault> {
        let bytes = self.finisher.artifacts.get(digest).await?;
        let bytes = bytes.ok_or_else(|| Fault::Never(format!("state {digest} is missing").into()))?;
        let mut state: serde_json::Value = serde_json::from_slice(&bytes)?;
        if let Some(latest) = state.pointer_mut("/checkpoint/latest").and_then(|l| l.as_object_mut()) {
            latest.remove("pending_operations");
        }
        Ok(self.finisher.artifacts.put(&serde_json::to_vec(&state)?).await?)
    }
}
