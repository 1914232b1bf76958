//! Whose turn it is in an environment, and the message that says so.

use domain::aggregate::{Change, Versioned};
use domain::environment_slot::SlotCommand;
use domain::{EnvironmentSlot, ProvisioningRun};
use events::{EnvironmentId, ProvisioningRunId, TenantId};
use ports::commit::Destination;
use ports::{Commit, Cx, Store};

use crate::work::{Fault, or_again, to};
use crate::workers::{Applier, ApplyRun, PlanRun, Planner};

/// The concurrency group of an environment.
pub fn group(tenant: &TenantId, environment: &EnvironmentId) -> String {
    format!(
        "{}/{}",
        domain::aggregate::encode(tenant.as_str()),
        domain::aggregate::encode(environment.as_str())
    )
}

/// The message for the head of a queue, after a commit that made `slot` out of `before`: None where the head is
/// the same as before, or the environment is taken.
pub fn next(before: &EnvironmentSlot, slot: &EnvironmentSlot) -> Result<Option<Destination>, Fault> {
    let Some(head) = slot.head() else { return Ok(None) };
    if slot.active.is_some() || before.head().is_some_and(|b| b.run == head.run) {
        return Ok(None);
    }
    wake(&slot.tenant, &slot.environment, head.run, head.approved).map(Some)
}

/// Commits what became of a run together with its environment's slot; the message for whose turn it is now leaves
/// with them.
pub async fn commit(
    store: &Store,
    run: Change<ProvisioningRun>,
    before: &EnvironmentSlot,
    slot: Change<EnvironmentSlot>,
    cx: &Cx,
) -> Result<(), Fault> {
    let next = next(before, slot.after())?;
    or_again(store.commit(Commit::of(run, cx).and(slot).queue_maybe(next)).await?)
}

/// Commits what became of a run that gives up its place.
pub async fn leave(
    store: &Store,
    run: Change<ProvisioningRun>,
    slot: &Versioned<EnvironmentSlot>,
    cx: &Cx,
) -> Result<(), Fault> {
    let left = SlotCommand::Leave { run: run.after().id };
    let place = slot.decide(left, cx.now).map_err(Fault::refused)?;
    commit(store, run, slot, place, cx).await
}

/// The message that goes on with a run.
pub fn wake(
    tenant: &TenantId,
    environment: &EnvironmentId,
    run: ProvisioningRunId,
    apply: bool,
) -> Result<Destination, Fault> {
    let (tenant, environment) = (tenant.clone(), environment.clone());
    if apply {
        to::<Applier>(&ApplyRun { tenant, environment, run })
    } else {
        to::<Planner>(&PlanRun { tenant, environment, run })
    }
}

/// The message that goes on with a run as it stands.
pub fn wake_run(run: &ProvisioningRun) -> Result<Destination, Fault> {
    let apply = run.plan.is_some();
    wake(&run.tenant, &run.environment, run.id, apply)
}
