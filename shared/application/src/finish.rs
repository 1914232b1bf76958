//! The end of an apply. The outcome is put once, by whoever is first; the store follows it (Rule 15).

use std::sync::Arc;

use domain::aggregate::Scoped;
use domain::environment_slot::{SlotCommand, StateHead};
use domain::provisioning_run::{ApplyRecord, RunCommand, RunState, Token};
use domain::receipt::{ApplyReceipt, OutcomeRecord, ReceiptKind};
use domain::{Digest, EnvironmentSlot, ProvisioningRun};
use ports::receipts::{blob_key, copy_link, run_key};
use ports::{Artifacts, Commit, Cx, Put, Receipts, Store};

use crate::turns;
use crate::work::{Fault, or_again};

/// What ending needs.
pub struct Finisher {
    /// The store.
    pub store: Store,
    /// Receipts.
    pub receipts: Arc<dyn Receipts>,
    /// States and logs.
    pub artifacts: Arc<dyn Artifacts>,
}

impl Finisher {
    /// The outcome of a run, if somebody has put one.
    pub async fn outcome(&self, run: &ProvisioningRun) -> Result<Option<OutcomeRecord>, Fault> {
        let key = run_key(&run.tenant, run.id, "outcome");
        let Some(bytes) = self.receipts.get(&key).await? else { return Ok(None) };
        Ok(Some(serde_json::from_slice(&bytes)?))
    }

    /// Puts the outcome and follows whichever stands. `receipt` says what this finisher saw.
    pub async fn end(
        &self,
        run: &ProvisioningRun,
        receipt: ApplyReceipt,
        failure: Option<domain::provisioning_run::Failure>,
        pending_operations: bool,
        cx: &Cx,
    ) -> Result<OutcomeRecord, Fault> {
        let bytes = domain::digest::canonical(&receipt)?;
        let digest = Digest::of(&bytes);
        self.receipts.put_once(&blob_key(&digest), &bytes).await?;
        let mine = OutcomeRecord {
            applied: failure.is_none(),
            failure,
            receipt: digest,
            state: receipt.state,
            pending_operations,
            logs_ref: receipt.logs_ref,
            completed_at: receipt.completed_at,
        };
        let key = run_key(&run.tenant, run.id, "outcome");
        let outcome = match self.receipts.put_once(&key, &domain::digest::canonical(&mine)?).await? {
            Put::Created | Put::Same => mine,
            Put::Different => self.outcome(run).await?.ok_or_else(|| {
                Fault::Again(format!("the outcome of run {} is there and can't be read", run.id).into())
            })?,
        };
        self.follow(run, &outcome, cx).await?;
        Ok(outcome)
    }

    /// Makes the store say what the outcome says. Twice is once.
    pub async fn follow(&self, run: &ProvisioningRun, outcome: &OutcomeRecord, cx: &Cx) -> Result<(), Fault> {
        // load
        let run = self.store.need::<ProvisioningRun>(&Scoped::new(run.tenant.clone(), run.id)).await?;
        let RunState::Applying { token, .. } = &run.state else { return Ok(()) };
        let slot = Scoped::new(run.tenant.clone(), run.environment.clone());
        let slot = self.store.need::<EnvironmentSlot>(&slot).await?;
        let blob = self.receipts.get(&blob_key(&outcome.receipt)).await?;
        let receipt = blob.and_then(|b| serde_json::from_slice::<ApplyReceipt>(&b).ok());
        // A receipt that is gone or damaged keeps no run from ending: the chain's check names it.
        let outputs = receipt.map_or_else(
            || format!("unknown: apply receipt {} is missing or damaged", outcome.receipt).into(),
            |receipt| receipt.outputs,
        );
        // decide
        let token: Token = token.clone();
        let apply = ApplyRecord {
            link: slot.next_link(run.id, ReceiptKind::Apply, outcome.receipt.clone()),
            state: outcome.state.clone(),
            outputs,
        };
        let finish = RunCommand::Finish {
            token: token.clone(),
            apply: Box::new(apply),
            failure: outcome.failure.clone(),
            logs: outcome.logs_ref.clone(),
        };
        let change = run.decide(finish, cx.now).map_err(Fault::refused)?;
        let state = outcome.state.clone().map(|digest| {
            let head = StateHead {
                digest,
                run: run.id,
                specification_version: run.specification_version,
                pending_operations: outcome.pending_operations,
            };
            (run.specification, head)
        });
        let link =
            SlotCommand::Link { run: run.id, kind: ReceiptKind::Apply, receipt: outcome.receipt.clone() };
        let place = slot.decide(link, cx.now).map_err(Fault::refused)?;
        let release = SlotCommand::Release { run: run.id, token, state };
        let place = place.then(release, cx.now).map_err(Fault::refused)?;
        let next = turns::next(&slot, place.after())?;
        // commit: run, state head, chain link, event and the next run's message leave together
        let link = change.after().apply.as_ref().map(|a| a.link.clone());
        or_again(self.store.commit(Commit::of(change, cx).and(place).queue_maybe(next)).await?)?;
        if let Some(link) = link {
            copy_link(&*self.receipts, &run.tenant, &run.environment, &link).await?;
        }
        tracing::info!(tenant = %run.tenant, environment = %run.environment, run = %run.id, applied = outcome.applied, "apply ended");
        Ok(())
    }
}
