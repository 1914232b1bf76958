//! Declares a specification version, its run and the run's place in the queue, in one commit.

use chrono::{DateTime, Utc};
use domain::aggregate::{Change, Scoped, Versioned};
use domain::decided_at;
use domain::deployment_specification::{Declaration, SpecificationVersion};
use domain::environment_slot::{PromotionHead, SlotCommand};
use domain::provisioning_run::{Chain, NewRun, RunCommand, RunSource};
use domain::{DeploymentSpecification, EnvironmentSlot, ProvisioningRun};
use events::{Principal, ProvisioningRunId};
use ports::rows::By;
use ports::{Commit, Cx, Store};

use crate::settings::Settings;
use crate::turns;
use crate::work::{Fault, or_again};

/// What is wanted.
pub struct Wanted {
    /// What to declare.
    pub declaration: Declaration,
    /// Id of the run.
    pub run: ProvisioningRunId,
    /// Where it comes from.
    pub source: RunSource,
    /// Who asked.
    pub requested_by: Principal,
    /// The run that it repeats.
    pub rerun_of: Option<ProvisioningRunId>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Declared {
    /// The run.
    pub provisioning_run_id: ProvisioningRunId,
    /// False where it was there already.
    pub new: bool,
}

/// At most so many older runs are superseded in one commit; RunWatch and the queue see to the rest.
const SUPERSEDED_AT_ONCE: usize = 20;

/// Declares. The same run again changes nothing.
pub async fn declare(store: &Store, settings: &Settings, wanted: Wanted, cx: &Cx) -> Result<Declared, Fault> {
    // load
    let tenant = wanted.declaration.tenant.clone();
    let environment = wanted.declaration.environment.clone();
    let id = wanted.run;
    if store.load::<ProvisioningRun>(&Scoped::new(tenant.clone(), id)).await?.is_some() {
        return Ok(Declared { provisioning_run_id: id, new: false });
    }
    let slot = store.load::<EnvironmentSlot>(&Scoped::new(tenant.clone(), environment.clone())).await?;
    let specification = wanted.declaration.specification_id();
    let head = slot.as_ref().and_then(|s| s.specifications.get(&specification)).cloned();
    let newest = match &head {
        Some(head) => {
            let version =
                SpecificationVersion { tenant: tenant.clone(), id: specification, version: head.version };
            store.load::<DeploymentSpecification>(&version).await?
        }
        None => None,
    };
    let promotion = match &wanted.source {
        RunSource::Promotion { approval, .. } => {
            Some(PromotionHead { run: id, decided_at: approval.decided_at })
        }
        RunSource::Baseline | RunSource::Manual | RunSource::Reconciliation | RunSource::PoolResize => None,
    };
    let older = if promotion.is_some() { waiting(store, &wanted, specification).await? } else { vec![] };

    // decide
    let late = promotion.as_ref().and_then(|mine| {
        let newest = head.as_ref()?.newest_promotion.clone()?;
        // One that an earlier version took in although it was dated in the future stands before nobody.
        let believed = decided_at::check(newest.decided_at, cx.now).is_ok();
        (believed && newest.decided_at > mine.decided_at).then_some(newest)
    });
    let declared = match (&newest, &head) {
        (None, None) => Some(DeploymentSpecification::declare(wanted.declaration.clone(), cx.now)),
        (None, Some(head)) => {
            Some(DeploymentSpecification::declare_after(head.version, wanted.declaration.clone(), cx.now))
        }
        (Some(_), _) if late.is_some() => None,
        (Some(newest), _) => newest.declare_next(wanted.declaration.clone(), cx.now).transpose(),
    };
    let declared = declared.transpose().map_err(Fault::refused)?;
    let version = match (&declared, &newest) {
        (Some(change), _) => change.after().version,
        (None, Some(newest)) => newest.version,
        (None, None) => 1,
    };
    let mut run = new_run(&wanted, version, cx.now + settings.watch_again, cx);
    let opened = match &slot {
        None => EnvironmentSlot::open(tenant.clone(), environment.clone()),
        Some(slot) => slot.begin(),
    };
    let before = opened.after().clone();
    let mut place = opened;
    let mut superseded = vec![];
    if let Some(newer) = late {
        run = run.then(RunCommand::Supersede { by: newer.run }, cx.now).map_err(Fault::refused)?;
    } else {
        let declare = SlotCommand::Declare { specification, version, promotion };
        place = place.then(declare, cx.now).map_err(Fault::refused)?;
        for old in older {
            superseded.push(old.decide(RunCommand::Supersede { by: id }, cx.now).map_err(Fault::refused)?);
            place = place.then(SlotCommand::Leave { run: old.id }, cx.now).map_err(Fault::refused)?;
        }
        place = place.then(SlotCommand::Enqueue { run: id }, cx.now).map_err(Fault::refused)?;
    }
    let next = turns::next(&before, place.after())?;

    // commit: version, run, place and the message leave together
    let mut commit = Commit::of(run, cx).and_maybe(declared).and(place).queue_maybe(next);
    for change in superseded {
        commit = commit.and(change);
    }
    or_again(store.commit(commit).await?)?;
    Ok(Declared { provisioning_run_id: id, new: true })
}

fn new_run(wanted: &Wanted, version: u32, due: DateTime<Utc>, cx: &Cx) -> Change<ProvisioningRun> {
    let declaration = &wanted.declaration;
    let new = NewRun {
        id: wanted.run,
        tenant: declaration.tenant.clone(),
        project: declaration.project.clone(),
        environment: declaration.environment.clone(),
        specification: declaration.specification_id(),
        specification_version: version,
        program: declaration.program.clone(),
        release: declaration.release,
        source: wanted.source.clone(),
        requested_by: wanted.requested_by.clone(),
        rerun_of: wanted.rerun_of,
        chain: Chain::of(&cx.correlation, cx.span()),
    };
    ProvisioningRun::declare(new, due, cx.now)
}

/// Promotions of the same specification that haven't begun to apply: a newer one takes their place.
async fn waiting(
    store: &Store,
    wanted: &Wanted,
    specification: events::SpecificationId,
) -> Result<Vec<Versioned<ProvisioningRun>>, Fault> {
    let RunSource::Promotion { approval: mine, .. } = &wanted.source else { return Ok(vec![]) };
    let by = By::Living(&wanted.declaration.tenant, &wanted.declaration.environment);
    let mut out = vec![];
    for hint in store.find_all::<ProvisioningRun>(by).await? {
        let same = hint.specification == specification && hint.id != wanted.run;
        if !same || hint.state.is_final() || out.len() >= SUPERSEDED_AT_ONCE {
            continue;
        }
        let Some(run) = store.load::<ProvisioningRun>(&Scoped::new(hint.tenant, hint.id)).await? else {
            continue;
        };
        let applying = matches!(run.state, domain::provisioning_run::RunState::Applying { .. });
        let older = matches!(&run.source, RunSource::Promotion { approval, .. } if approval.decided_at <= mine.decided_at);
        if !run.state.is_final() && !applying && older {
            out.push(run);
        }
    }
    Ok(out)
}
