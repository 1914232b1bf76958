//! Applies an allowed or approved plan, once. The claim is a commit; after it Pulumi is started only by whoever
//! put the intent; everything that the plan rests on is checked again under the environment's lock.

mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use domain::aggregate::{Scoped, Versioned};
use domain::environment_slot::SlotCommand;
use domain::plan::StepOp;
use domain::provisioning_run::{Failure, FailureReason, PlanRecord, RunCommand, RunRefusal, RunState, Token};
use domain::receipt::{ApplyReceipt, ApplyResult, PlanReceipt};
use domain::routing::Authority;
use domain::{Digest, EnvironmentSlot, ProvisioningRun};
use events::{EnvironmentId, ProvisioningRunId, TenantId};
use ports::receipts::{blob_key, run_key};
use ports::runner::{ApplyOutcome, Phase, Progress};
use ports::{Clock, Commit, ConfigPlatform, Cx, Ids, PolicyEngine, Put, Runner, SecretBroker};
use serde::{Deserialize, Serialize};

use crate::catalog::{APPLIER, Row};
use crate::finish::Finisher;
use crate::settings::Settings;
use crate::turns;
use crate::work::{Fault, Worker, or_again};
use crate::workers::planner::keep_log;

/// The worker.
pub struct Applier {
    /// The end of an apply: store, receipts, artifacts.
    pub finisher: Finisher,
    /// Where Pulumi runs.
    pub runner: Arc<dyn Runner>,
    /// Policies.
    pub policy: Arc<dyn PolicyEngine>,
    /// Configuration.
    pub config: Arc<dyn ConfigPlatform>,
    /// Secrets.
    pub secrets: Arc<dyn SecretBroker>,
    /// The time at the end of an apply.
    pub clock: Arc<dyn Clock>,
    /// Tells this attempt's intent from another's.
    pub ids: Arc<dyn Ids>,
    /// Settings.
    pub settings: Arc<Settings>,
}

/// Apply a run, or go on with its apply.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyRun {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// The run.
    pub run: ProvisioningRunId,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum ApplyReport {
    /// It ended, and so it is recorded.
    Ended {
        /// Whether all of the plan was applied.
        applied: bool,
    },
    /// There is nothing to apply: it isn't ready, or has ended.
    Nothing,
    /// Others are before it.
    NotItsTurn,
    /// It waits for something; RunWatch looks again.
    Waiting(String),
    /// The runner goes on; a message comes when it has ended.
    Started,
}

/// Put once before Pulumi starts: if another one is there, Pulumi is never started (Rule 12).
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Intent {
    run: ProvisioningRunId,
    token: String,
    plan_receipt: Digest,
    plan_digest: Digest,
    attempt: uuid::Uuid,
}

/// What the apply of a claimed run works with.
struct Claimed<'a> {
    run: &'a Versioned<ProvisioningRun>,
    plan: &'a PlanRecord,
    token: &'a Token,
    since: DateTime<Utc>,
    authority: &'a Authority,
}

impl Worker for Applier {
    const ROW: &'static Row = &APPLIER;
    type Input = ApplyRun;
    type Report = ApplyReport;

    fn key(input: &ApplyRun) -> String {
        format!("{}/apply", input.run)
    }
    fn group(input: &ApplyRun) -> String {
        turns::group(&input.tenant, &input.environment)
    }

    async fn run(&self, input: ApplyRun, cx: &Cx) -> Result<ApplyReport, Fault> {
        // load
        let id = Scoped::new(input.tenant, input.run);
        let mut run = self.finisher.store.need::<ProvisioningRun>(&id).await?;
        let cx = &cx.of_run(&run);
        let planned = self.planned(&run).await?;
        let changing = planned.as_ref().map(changing).unwrap_or_default();
        if run.is_ready_to_apply() {
            if let Some(report) = self.claim(&run, &changing, cx).await? {
                return Ok(report);
            }
            run = self.finisher.store.need::<ProvisioningRun>(&id).await?;
        }
        let (RunState::Applying { token, since, authority, .. }, Some(plan)) = (&run.state, &run.plan) else {
            if run.state.is_final() {
                self.runner.clean(run.id, Phase::Apply).await?;
            }
            return Ok(ApplyReport::Nothing);
        };
        let claimed = Claimed { run: &run, plan, token, since: *since, authority };
        if let Some(outcome) = self.finisher.outcome(&run).await? {
            self.finisher.follow(&run, &outcome, cx).await?;
            return Ok(ApplyReport::Ended { applied: outcome.applied });
        }

        // act: what the start needs is read before the intent is put; Pulumi is started at most once, by whoever puts it
        let began = self.clock.now();
        let inputs = self.inputs(&run).await?;
        let needed = self.needed(&claimed).await?;
        let may_start = self.intend(&claimed).await?;
        if may_start && let Some(failure) = self.refusal(&claimed, planned, &inputs, &needed).await? {
            return self.end(&claimed, nothing(failure), ApplyResult::NotStarted, began, cx).await;
        }
        let to_mask = self.to_mask(&claimed, inputs).await?;
        let job = self.job(&claimed, to_mask, needed, changing, may_start, cx);
        match self.runner.apply(&job).await? {
            Progress::Running => Ok(ApplyReport::Started),
            Progress::Finished(mut outcome) => {
                self.name_the_stop(&claimed, &mut outcome).await?;
                let result =
                    if outcome.failure.is_none() { ApplyResult::Succeeded } else { ApplyResult::Failed };
                self.end(&claimed, outcome, result, began, cx).await
            }
            Progress::Dead { proof } => {
                let failure = Failure {
                    reason: FailureReason::Interrupted,
                    message: format!(
                        "its process ended without a result ({proof}); plan again to see what is left to do"
                    ),
                };
                self.end(&claimed, nothing(failure), ApplyResult::Failed, began, cx).await
            }
            Progress::Unknown { why } => {
                tracing::warn!(tenant = %run.tenant, environment = %run.environment, run = %run.id, why, "run waits");
                let due = cx.now + self.settings.watch_again;
                let change = run.decide(RunCommand::LookAgain { due }, cx.now).map_err(Fault::refused)?;
                or_again(self.finisher.store.commit(Commit::of(change, cx)).await?)?;
                Ok(ApplyReport::Waiting(why))
            }
        }
    }
}

impl Applier {
    /// One commit: token taken, run Applying, environment's active run set (Rule 11). None: go on.
    async fn claim(
        &self,
        run: &Versioned<ProvisioningRun>,
        changing: &[String],
        cx: &Cx,
    ) -> Result<Option<ApplyReport>, Fault> {
        let store = &self.finisher.store;
        let slot = Scoped::new(run.tenant.clone(), run.environment.clone());
        let slot = store.need::<EnvironmentSlot>(&slot).await?;
        if !slot.is_head(run.id) {
            return Ok(Some(ApplyReport::NotItsTurn));
        }
        if let Some(taint) = &slot.tainted {
            return Ok(Some(ApplyReport::Waiting(taint.reason.clone())));
        }
        // Elsewhere nobody waits for it: whether somebody has come for it at all is looked at early.
        let elsewhere = self.runner.longest_apply(changing).is_some();
        let limit = self.limit(changing);
        let due = cx.now + if elsewhere { limit.min(FIRST_LOOK) } else { limit };
        let start = run.decide(RunCommand::StartApply { token: slot.next_token(), due }, cx.now);
        let (change, place, report) = match start {
            Ok(change) => (change, slot.decide(SlotCommand::Take { run: run.id }, cx.now), None),
            // What let it through has run out: the run ends, and the next one gets its turn.
            Err(RunRefusal::Expired { .. }) => (
                run.decide(RunCommand::Expire, cx.now).map_err(Fault::refused)?,
                slot.decide(SlotCommand::Leave { run: run.id }, cx.now),
                Some(ApplyReport::Nothing),
            ),
            Err(refusal @ RunRefusal::NoAuthority { .. }) => {
                let failure = Failure { reason: FailureReason::PlanStale, message: refusal.to_string() };
                let fail = RunCommand::FailPlan { failure, logs: None };
                (
                    run.decide(fail, cx.now).map_err(Fault::refused)?,
                    slot.decide(SlotCommand::Leave { run: run.id }, cx.now),
                    Some(ApplyReport::Nothing),
                )
            }
            Err(refusal) => return Err(Fault::refused(refusal)),
        };
        turns::commit(store, change, &slot, place.map_err(Fault::refused)?, cx).await?;
        Ok(report)
    }

    /// How long an apply of such a plan may take where it runs.
    fn limit(&self, changing: &[String]) -> TimeDelta {
        let there = self.runner.longest_apply(changing);
        there.map_or(self.settings.apply_limit, |longest| longest.min(self.settings.apply_limit))
    }

    /// The plan as it was recorded; None where there is none, or not the one that was recorded.
    async fn planned(&self, run: &ProvisioningRun) -> Result<Option<PlanReceipt>, Fault> {
        let Some(plan) = run.plan.as_ref().filter(|_| !run.state.is_final()) else { return Ok(None) };
        let bytes = self.finisher.receipts.get(&blob_key(&plan.link.receipt)).await?;
        let bytes = bytes.filter(|b| Digest::of(b) == plan.link.receipt);
        Ok(bytes.map(|b| serde_json::from_slice(&b)).transpose()?)
    }

    /// Whether this attempt may start Pulumi.
    async fn intend(&self, claimed: &Claimed<'_>) -> Result<bool, Fault> {
        let run = claimed.run;
        let intent = Intent {
            run: run.id,
            token: claimed.token.to_string(),
            plan_receipt: claimed.plan.link.receipt.clone(),
            plan_digest: claimed.plan.plan_digest.clone(),
            attempt: self.ids.fresh(),
        };
        let key = run_key(&run.tenant, run.id, "intent");
        let put = self.finisher.receipts.put_once(&key, &domain::digest::canonical(&intent)?).await?;
        Ok(matches!(put, Put::Created | Put::Same))
    }

    /// A stop that somebody asked for ends as cancelled.
    async fn name_the_stop(&self, claimed: &Claimed<'_>, outcome: &mut ApplyOutcome) -> Result<(), Fault> {
        let Some(failure) = &mut outcome.failure else { return Ok(()) };
        if failure.reason != FailureReason::Interrupted {
            return Ok(());
        }
        let id = Scoped::new(claimed.run.tenant.clone(), claimed.run.id);
        let now = self.finisher.store.need::<ProvisioningRun>(&id).await?;
        if let RunState::Applying { cancel: Some(cancel), .. } = &now.state {
            failure.reason = FailureReason::Cancelled;
            failure.message = format!("{} stopped it: {}; {}", cancel.by, cancel.reason, failure.message);
        }
        Ok(())
    }

    async fn end(
        &self,
        claimed: &Claimed<'_>,
        outcome: ApplyOutcome,
        result: ApplyResult,
        began: chrono::DateTime<chrono::Utc>,
        cx: &Cx,
    ) -> Result<ApplyReport, Fault> {
        let artifacts = &self.finisher.artifacts;
        let state = match &outcome.state {
            Some(state) => Some(artifacts.put(state).await?),
            None => None,
        };
        let logs_ref = keep_log(&**artifacts, claimed.run.id, &outcome.log).await;
        let completed_at = self.clock.now();
        let receipt = ApplyReceipt {
            owner: super::planner::owner(claimed.run),
            plan_receipt: claimed.plan.link.receipt.clone(),
            result,
            reason: outcome.failure.as_ref().map(|f| f.reason.code().to_owned()),
            message: outcome.failure.as_ref().map(|f| f.message.clone()),
            outputs: outcome.outputs,
            failing: outcome.failing,
            changes: outcome.changes,
            resources: outcome.resources,
            state,
            authority: serde_json::to_value(claimed.run.evidence(claimed.authority))?,
            token: claimed.token.to_string(),
            logs_ref,
            runner_version: self.runner.version(),
            started_at: began,
            completed_at,
            duration_ms: outcome.duration_ms,
        };
        let now = Cx { now: completed_at, ..cx.clone() };
        let ended = self
            .finisher
            .end(claimed.run, receipt, outcome.failure, outcome.pending_operations, &now)
            .await?;
        self.runner.clean(claimed.run.id, Phase::Apply).await?;
        Ok(ApplyReport::Ended { applied: ended.applied })
    }
}

/// Until RunWatch looks for the first time at an apply that runs elsewhere; then each minute.
const FIRST_LOOK: TimeDelta = TimeDelta::minutes(3);

/// Types of the resources that a plan changes, each once.
fn changing(planned: &PlanReceipt) -> Vec<String> {
    let changes = planned.steps.iter().filter(|s| s.op != StepOp::Read);
    let types: BTreeSet<String> = changes.map(|s| s.resource_type.clone()).collect();
    types.into_iter().collect()
}

/// The outcome of an apply that changed nothing.
fn nothing(failure: Failure) -> ApplyOutcome {
    ApplyOutcome {
        log: format!("{}\n", failure.message).into_bytes(),
        failure: Some(failure),
        failing: vec![],
        outputs: serde_json::Value::Object(serde_json::Map::new()),
        changes: BTreeMap::new(),
        resources: vec![],
        state: None,
        pending_operations: false,
        duration_ms: 0,
    }
}
