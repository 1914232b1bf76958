//! State implies work (Rule 8): every run that isn't final and whose time has come is queued again or ended,
//! whatever became of its messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::aggregate::{Scoped, Versioned};
use domain::deployment_specification::NAMESPACE;
use domain::environment_slot::SlotCommand;
use domain::provisioning_run::{RunCommand, RunState};
use domain::{EnvironmentSlot, ProvisioningRun};
use events::{EnvironmentId, ProvisioningRunId, TenantId};
use ports::queue::Message;
use ports::rows::By;
use ports::runner::Phase;
use ports::{Commit, Cx, Queue, RunStopper, Store};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::catalog::{RUN_WATCH, Row};
use crate::settings::Settings;
use crate::turns;
use crate::work::{Fault, Worker, or_again};

/// The worker.
pub struct RunWatch {
    /// The store.
    pub store: Store,
    /// Stops runs.
    pub runner: Arc<dyn RunStopper>,
    /// Its own queue: a tick sends a message for each environment, so that a slow one delays no other.
    pub queue: Arc<dyn Queue>,
    /// Settings.
    pub settings: Arc<Settings>,
}

/// A tick, or what a tick has found in one environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchRuns {
    /// The scheduled time.
    pub window: DateTime<Utc>,
    /// None: this is the tick.
    #[serde(flatten)]
    pub due: Option<DueRuns>,
}

/// The runs of an environment whose time has come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DueRuns {
    /// Whose they are.
    pub tenant: TenantId,
    /// Their environment.
    pub environment: EnvironmentId,
    /// Their ids: a hint, for what is decided on is loaded.
    pub runs: Vec<ProvisioningRunId>,
}

/// What it did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Watched {
    /// Environments that have due runs.
    pub environments: u32,
    /// Runs that were queued again.
    pub queued: u32,
    /// Runs that were ended.
    pub ended: u32,
    /// Runs that apply for longer than they may.
    pub late: u32,
    /// Environments that were closed.
    pub closed: u32,
}

/// So many runs of an environment are looked at in one window: a message has an end, and the next window comes soon.
const AT_ONCE: usize = 200;

impl Worker for RunWatch {
    const ROW: &'static Row = &RUN_WATCH;
    type Input = WatchRuns;
    type Report = Watched;

    fn key(input: &WatchRuns) -> String {
        match &input.due {
            None => input.window.to_rfc3339(),
            Some(due) => {
                format!("{}/{}", input.window.to_rfc3339(), turns::group(&due.tenant, &due.environment))
            }
        }
    }
    fn group(input: &WatchRuns) -> String {
        match &input.due {
            None => "tick".to_owned(),
            Some(due) => turns::group(&due.tenant, &due.environment),
        }
    }

    async fn run(&self, input: WatchRuns, cx: &Cx) -> Result<Watched, Fault> {
        match input.due {
            None => self.tick(input.window, cx).await,
            Some(due) => self.look_at(&due, cx).await,
        }
    }
}

impl RunWatch {
    /// Closes environments whose dead copies moved, and sends a message for each environment with due runs.
    async fn tick(&self, window: DateTime<Utc>, cx: &Cx) -> Result<Watched, Fault> {
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
        let mut due = BTreeMap::<(TenantId, EnvironmentId), Vec<ProvisioningRunId>>::new();
        let (hints, unreadable) = self.store.find_readable::<ProvisioningRun>(By::Due(cx.now)).await?;
        for error in unreadable {
            tracing::error!(error = %error.chain(), "a due run can't be looked at");
        }
        for hint in hints {
            due.entry((hint.tenant, hint.environment)).or_default().push(hint.id);
        }
        for ((tenant, environment), mut runs) in due {
            runs.truncate(AT_ONCE);
            let input = WatchRuns { window, due: Some(DueRuns { tenant, environment, runs }) };
            // The window and the environment name it: a tick that comes twice sends nothing twice.
            let id = Uuid::new_v5(&NAMESPACE, format!("watch/{}", Self::key(&input)).as_bytes());
            let message = Message {
                id,
                queue: RUN_WATCH.name.to_owned(),
                group: Self::group(&input),
                body: serde_json::to_vec(&input)?,
                correlation: cx.correlation.clone(),
                trace: Some(cx.span()),
            };
            self.queue.send(&message).await?;
            watched.environments += 1;
        }
        Ok(watched)
    }

    async fn look_at(&self, due: &DueRuns, cx: &Cx) -> Result<Watched, Fault> {
        let mut watched = Watched::default();
        for id in &due.runs {
            let id = Scoped::new(due.tenant.clone(), *id);
            let Some(run) = self.store.load::<ProvisioningRun>(&id).await? else { continue };
            if run.state.is_final() || run.due.is_none_or(|due| due > cx.now) {
                continue;
            }
            // One that somebody stops takes the time that stopping takes.
            let limit = self.settings.apply_limit;
            let late = matches!(&run.state, RunState::Applying { since, cancel: None, .. } if cx.now > *since + limit);
            watched.late += u32::from(late);
            match self.look(&run, &cx.of_run(&run)).await {
                Ok(true) => watched.ended += 1,
                Ok(false) => watched.queued += 1,
                // One run that can't be looked at delays no other.
                Err(e) => {
                    tracing::warn!(tenant = %run.tenant, environment = %run.environment, run = %run.id, error = %ports::error::chain(&e), "run could not be looked at");
                }
            }
        }
        Ok(watched)
    }

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
