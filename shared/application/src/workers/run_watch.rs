//! State implies work (Rule 8): every run that isn't final and whose time has come is queued again or ended,
//! whatever became of its messages.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::aggregate::{Scoped, Versioned};
use domain::environment_slot::SlotCommand;
use domain::provisioning_run::{RunCommand, RunState};
use domain::{EnvironmentSlot, ProvisioningRun};
use ports::rows::By;
use ports::runner::Phase;
use ports::{Commit, Cx, Runner, Store};
use serde::{Deserialize, Serialize};

use crate::catalog::{RUN_WATCH, Row};
use crate::settings::Settings;
use crate::turns;
use crate::work::{Fault, Worker, or_again};

/// The worker.
pub struct RunWatch {
    /// The store.
    pub store: Store,
    /// Where Pulumi runs.
    pub runner: Arc<dyn Runner>,
    /// Settings.
    pub settings: Arc<Settings>,
}

/// A tick.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchRuns {
    /// The scheduled time.
    pub window: DateTime<Utc>,
}

/// What it did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Watched {
    /// Runs that were queued again.
    pub queued: u32,
    /// Runs that were ended.
    pub ended: u32,
    /// Environments that were closed.
    pub closed: u32,
}

impl Worker for RunWatch {
    const ROW: &'static Row = &RUN_WATCH;
    type Input = WatchRuns;
    type Report = Watched;

    fn key(input: &WatchRuns) -> String {
        input.window.to_rfc3339()
    }
    fn group(_: &WatchRuns) -> String {
        "RunWatch".to_owned()
    }

    async fn run(&self, _: WatchRuns, cx: &Cx) -> Result<Watched, Fault> {
        let mut watched = Watched::default();
        for (tenant, environment, run, seen) in self.runner.zombies().await? {
            let Some(slot) = self.store.load::<EnvironmentSlot>(&Scoped::new(tenant, environment)).await?
            else {
                continue;
            };
            let taint = SlotCommand::Taint { run, reason: seen };
            let change = slot.decide(taint, cx.now).map_err(Fault::refused)?;
            if slot.tainted.is_none() {
                or_again(self.store.commit(Commit::of(change, cx)).await?)?;
                watched.closed += 1;
            }
        }
        // The listing is a hint; what is decided on is loaded.
        for hint in self.store.find_all::<ProvisioningRun>(By::Due(cx.now)).await? {
            let id = Scoped::new(hint.tenant, hint.id);
            let Some(run) = self.store.load::<ProvisioningRun>(&id).await? else { continue };
            if run.state.is_final() || run.due.is_none_or(|due| due > cx.now) {
                continue;
            }
            match self.look(&run, cx).await {
                Ok(true) => watched.ended += 1,
                Ok(false) => watched.queued += 1,
                // One run that can't be looked at delays no other.
                Err(e) => {
                    tracing::warn!(run = %run.id, error = %ports::error::chain(&e), "run could not be looked at");
                }
            }
        }
        Ok(watched)
    }
}

impl RunWatch {
    /// True where the run was ended.
    async fn look(&self, run: &Versioned<ProvisioningRun>, cx: &Cx) -> Result<bool, Fault> {
        // load
        let slot = Scoped::new(run.tenant.clone(), run.environment.clone());
        let slot = self.store.need::<EnvironmentSlot>(&slot).await?;
        // act
        if let RunState::Applying { cancel: Some(_), .. } = &run.state {
            self.runner.stop(run, Phase::Apply).await?;
        }
        // decide
        if let RunState::AwaitingApproval { expires_at, approval, .. } = &run.state {
            let until = approval.as_ref().and_then(|a| a.expires_at).unwrap_or(*expires_at);
            if cx.now > until {
                let change = run.decide(RunCommand::Expire, cx.now).map_err(Fault::refused)?;
                turns::leave(&self.store, change, &slot, cx).await?;
                return Ok(true);
            }
        }
        let due = cx.now + self.settings.watch_again;
        let change = run.decide(RunCommand::LookAgain { due }, cx.now).map_err(Fault::refused)?;
        // commit: the message leaves with the next look
        let wake = slot.is_head(run.id) || matches!(run.state, RunState::Applying { .. });
        let message = if wake { Some(turns::wake_run(run)?) } else { None };
        or_again(self.store.commit(Commit::of(change, cx).queue_maybe(message)).await?)?;
        Ok(false)
    }
}
