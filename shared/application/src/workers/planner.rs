//! Plans the run whose turn it is, records the plan receipt and routes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::aggregate::{Scoped, Versioned};
use domain::deployment_specification::SpecificationVersion;
use domain::environment_slot::SlotCommand;
use domain::plan::{PlanStep, summarise};
use domain::provisioning_run::{Failure, FailureReason, PlanRecord, RunCommand, RunSource, RunState};
use domain::receipt::{PlanReceipt, ReceiptKind, ReceiptOwner, TargetCheck};
use domain::routing::{ReconciliationSource, Route, RoutingFacts, route};
use domain::{DeploymentSpecification, Digest, Environment, EnvironmentSlot, ProvisioningRun};
use events::{EnvironmentClass, EnvironmentId, PlanSummary, ProvisioningRunId, TenantId};
use ports::policy_engine::ApplyQuestion;
use ports::receipts::{blob_key, copy_link};
use ports::runner::{Access, Job, Phase, PlanOutcome, PlannedChanges, Progress};
use ports::{
    Artifacts, Clock, Commit, ConfigPlatform, Cx, EnvironmentReader, PolicyEngine, PortError, Receipts,
    Runner, SecretBroker, Store,
};
use serde::{Deserialize, Serialize};

use crate::catalog::{PLANNER, Row};
use crate::inputs::{InputError, Resolved, resolve};
use crate::settings::Settings;
use crate::turns;
use crate::work::{Fault, Worker, or_again};

/// The worker.
pub struct Planner {
    /// The store.
    pub store: Store,
    /// Receipts.
    pub receipts: Arc<dyn Receipts>,
    /// Plan files, states, logs.
    pub artifacts: Arc<dyn Artifacts>,
    /// Where Pulumi runs.
    pub runner: Arc<dyn Runner>,
    /// Policies.
    pub policy: Arc<dyn PolicyEngine>,
    /// Configuration.
    pub config: Arc<dyn ConfigPlatform>,
    /// Secrets.
    pub secrets: Arc<dyn SecretBroker>,
    /// Targets.
    pub environments: Arc<dyn EnvironmentReader>,
    /// The time when a plan is recorded.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub settings: Arc<Settings>,
}

/// Plan a run, or go on with its plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanRun {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// The run.
    pub run: ProvisioningRunId,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Planned {
    /// The plan is recorded and routed.
    Recorded {
        /// The state after.
        state: &'static str,
    },
    /// There is no plan.
    Failed,
    /// It was planned already, or has ended.
    AlreadyPlanned,
    /// Others are before it.
    NotItsTurn,
    /// It waits for something; RunWatch looks again.
    Waiting(String),
    /// The runner goes on; a message comes when it has ended.
    Started,
}

impl Worker for Planner {
    const ROW: &'static Row = &PLANNER;
    type Input = PlanRun;
    type Report = Planned;

    fn key(input: &PlanRun) -> String {
        format!("{}/plan", input.run)
    }
    fn group(input: &PlanRun) -> String {
        turns::group(&input.tenant, &input.environment)
    }

    async fn run(&self, input: PlanRun, cx: &Cx) -> Result<Planned, Fault> {
        // load
        let run = self.store.need::<ProvisioningRun>(&Scoped::new(input.tenant, input.run)).await?;
        let cx = &cx.of_run(&run);
        if run.state != RunState::PlanPending {
            self.runner.clean(run.id, Phase::Plan).await?;
            return Ok(Planned::AlreadyPlanned);
        }
        let slot = Scoped::new(run.tenant.clone(), run.environment.clone());
        let slot = self.store.need::<EnvironmentSlot>(&slot).await?;
        if !slot.is_head(run.id) {
            return Ok(Planned::NotItsTurn);
        }
        if let Some(taint) = &slot.tainted {
            return self.wait(&run, format!("the environment is closed: {}", taint.reason), cx).await;
        }
        let Some(environment) = self.store.load::<Environment>(&run.environment).await? else {
            return self
                .wait(&run, "no EnvironmentCreated has arrived for its environment".to_owned(), cx)
                .await;
        };
        if let Err(foreign) = environment.owned_by(&run.tenant) {
            return self.fail(&run, &slot, FailureReason::PlanFailed, foreign.to_string(), None, cx).await;
        }
        let head = slot.state_of(run.specification).cloned();
        if let Some(head) = head.as_ref().filter(|h| h.pending_operations) {
            let message = format!(
                "the state that run {} left holds operations that never ended: look at the resources, then `runtime-cloud recover settle {}`",
                head.run, run.environment
            );
            return self.fail(&run, &slot, FailureReason::PlanFailed, message, None, cx).await;
        }
        let version = SpecificationVersion {
            tenant: run.tenant.clone(),
            id: run.specification,
            version: run.specification_version,
        };
        let specification = self.store.need::<DeploymentSpecification>(&version).await?;

        // act: everything here may happen twice
        let inputs =
            resolve(&specification, &environment, &*self.config, &*self.secrets, &*self.runner).await;
        let inputs = match inputs {
            Ok(inputs) => inputs,
            Err(InputError::Port(e)) if e.is_temporary() && cx.attempt < PLANNER.retry.attempts() => {
                return Err(e.into());
            }
            Err(e) => {
                let message = ports::error::chain(&e);
                return self.fail(&run, &slot, FailureReason::PlanFailed, message, None, cx).await;
            }
        };
        if let Some(problem) = inputs.bound.too_large() {
            return self.fail(&run, &slot, FailureReason::PlanFailed, problem, None, cx).await;
        }
        let job = self.job(&run, &slot, &specification, &inputs, head.as_ref().map(|h| &h.digest), cx).await;
        let job = match job {
            Ok(job) => job,
            Err(e) if e.is_temporary() && cx.attempt < PLANNER.retry.attempts() => return Err(e.into()),
            // Nothing becomes better by waiting: the run ends, and says what to restore.
            Err(e) => {
                return self.fail(&run, &slot, FailureReason::PlanFailed, e.chain(), None, cx).await;
            }
        };
        let outcome = match self.runner.plan(&job).await {
            Ok(Progress::Finished(outcome)) => outcome,
            Ok(Progress::Running) => return Ok(Planned::Started),
            Ok(Progress::Dead { proof }) => {
                return Err(Fault::Again(format!("the planner's process died ({proof})").into()));
            }
            Ok(Progress::Unknown { why }) => return self.wait(&run, why, cx).await,
            Err(e) if e.is_temporary() && cx.attempt < PLANNER.retry.attempts() => return Err(e.into()),
            Err(e) => {
                return self.fail(&run, &slot, FailureReason::PlanFailed, e.chain(), None, cx).await;
            }
        };
        let began = cx.now;
        let cx = &Cx { now: self.clock.now(), ..cx.clone() };
        let logs = keep_log(&*self.artifacts, run.id, &outcome.log).await;
        let planned = match &outcome.result {
            Ok(planned) => planned,
            Err(failure) => {
                let Failure { reason, message } = failure.clone();
                return self.fail(&run, &slot, reason, message, logs, cx).await;
            }
        };
        let receipt = self.receipt(
            &run,
            &environment,
            &inputs,
            planned,
            &outcome,
            logs.clone(),
            head.map(|h| h.digest),
            cx,
        );
        let (mut receipt, route) = receipt.await?;
        receipt.route = route.to_string();
        receipt.started_at = began;
        let bytes = domain::digest::canonical(&receipt)?;
        let digest = Digest::of(&bytes);
        self.receipts.put_once(&blob_key(&digest), &bytes).await?;
        let stack_config = self.artifacts.put(&planned.stack_config).await?;

        // decide
        let record = PlanRecord {
            link: slot.next_link(run.id, ReceiptKind::Plan, digest.clone()),
            summary: receipt.summary,
            plan_digest: receipt.plan_file,
            steps_digest: receipt.steps_digest,
            inputs: receipt.inputs,
            inputs_hash: receipt.inputs_hash,
            state_head: receipt.state_head,
            stack_config,
            at: cx.now,
        };
        let expires_at = cx.now + self.settings.approval_expiry;
        let command = RunCommand::RecordPlan { plan: Box::new(record), route, expires_at, logs };
        let change = run.decide(command, cx.now).map_err(Fault::refused)?;
        let chained = slot.next_link(run.id, ReceiptKind::Plan, digest.clone());
        let link = SlotCommand::Link { run: run.id, kind: ReceiptKind::Plan, receipt: digest };
        let mut place = slot.decide(link, cx.now).map_err(Fault::refused)?;
        let applies = change.after().is_ready_to_apply();
        let next = if applies {
            Some(turns::wake_run(change.after())?)
        } else {
            place = place.then(SlotCommand::Leave { run: run.id }, cx.now).map_err(Fault::refused)?;
            turns::next(&slot, place.after())?
        };
        let state = change.after().state.state().as_str();
        tracing::info!(tenant = %run.tenant, environment = %run.environment, run = %run.id, state, "plan recorded");

        // commit: run, chain link, event and the next message leave together
        let commit = Commit::of(change, cx).and(place).unchanged(&specification).unchanged(&environment);
        or_again(self.store.commit(commit.queue_maybe(next)).await?)?;
        copy_link(&*self.receipts, &run.tenant, &run.environment, &chained).await?;
        self.runner.clean(run.id, Phase::Plan).await?;
        Ok(Planned::Recorded { state })
    }
}

impl Planner {
    /// What the runner is asked to plan.
    async fn job(
        &self,
        run: &ProvisioningRun,
        slot: &EnvironmentSlot,
        specification: &DeploymentSpecification,
        inputs: &Resolved,
        state: Option<&Digest>,
        cx: &Cx,
    ) -> Result<Job, PortError> {
        let state = match state {
            Some(digest) => Some(need(&*self.artifacts, "state", digest).await?),
            None => None,
        };
        // One environment has one passphrase: a state of any of its programs is encrypted with it.
        let encrypted = slot.specifications.values().any(|head| head.state.is_some());
        Ok(Job {
            run: run.id,
            attempt: cx.attempt,
            tenant: run.tenant.clone(),
            environment: run.environment.clone(),
            program: specification.declaration.program.clone(),
            config: inputs.config.clone(),
            secrets: inputs.secrets.clone(),
            secret_versions: inputs.bound.secrets.clone(),
            inputs: inputs.bound.hash().map_err(|e| {
                PortError::broken_by("the inputs of a plan can't be written", "report this", e)
            })?,
            identity: inputs.bound.identity.clone(),
            access: Access::default(),
            passphrase: self.secrets.passphrase(&run.tenant, &run.environment, !encrypted).await?,
            state,
            deadline: cx.now + self.settings.plan_limit,
        })
    }

    async fn wait(&self, run: &Versioned<ProvisioningRun>, why: String, cx: &Cx) -> Result<Planned, Fault> {
        let due: DateTime<Utc> = cx.now + self.settings.watch_again;
        let change = run.decide(RunCommand::LookAgain { due }, cx.now).map_err(Fault::refused)?;
        tracing::info!(tenant = %run.tenant, environment = %run.environment, run = %run.id, why, "run waits");
        or_again(self.store.commit(Commit::of(change, cx)).await?)?;
        Ok(Planned::Waiting(why))
    }

    async fn fail(
        &self,
        run: &Versioned<ProvisioningRun>,
        slot: &Versioned<EnvironmentSlot>,
        reason: FailureReason,
        message: String,
        logs: Option<Digest>,
        cx: &Cx,
    ) -> Result<Planned, Fault> {
        tracing::warn!(tenant = %run.tenant, environment = %run.environment, run = %run.id, %message, "plan failed");
        let failure = Failure { reason, message };
        let change = run.decide(RunCommand::FailPlan { failure, logs }, cx.now).map_err(Fault::refused)?;
        turns::leave(&self.store, change, slot, cx).await?;
        self.runner.clean(run.id, Phase::Plan).await?;
        Ok(Planned::Failed)
    }

    #[expect(clippy::too_many_arguments, reason = "a receipt is made of everything that the plan rests on")]
    async fn receipt(
        &self,
        run: &ProvisioningRun,
        environment: &Environment,
        inputs: &Resolved,
        planned: &PlannedChanges,
        outcome: &PlanOutcome,
        logs: Option<Digest>,
        state_head: Option<Digest>,
        cx: &Cx,
    ) -> Result<(PlanReceipt, Route), Fault> {
        let plan_file = self.artifacts.put(&planned.plan_file).await?;
        let protected = self.policy.protected_types();
        let summary = summarise(&planned.steps, planned.unchanged, &plan_file, protected);
        let asked = question(run, environment.class, planned.steps.clone(), &summary);
        let verdict = self.policy.may_apply(&asked).await?;
        let mut targets = BTreeMap::new();
        for target in &environment.targets {
            let check = match self.environments.reach(target).await {
                Ok(check) => check,
                Err(e) => TargetCheck { reachable: false, detail: e.chain() },
            };
            targets.insert(format!("{}:{}", target.kind, target.reference), check);
        }
        let route = route(&RoutingFacts {
            kind: run.kind(),
            class: environment.class,
            summary: &summary,
            verdict: &verdict,
            promotion_covered: matches!(run.source, RunSource::Promotion { .. })
                && run.promotion_covers(&inputs.bound, cx.now),
            reconciliation: ReconciliationSource::Scheduled { brake: false },
            only_pool_size: false,
        });
        let receipt = PlanReceipt {
            owner: owner(run),
            summary,
            steps: planned.steps.clone(),
            steps_digest: planned.steps_digest.clone(),
            inputs_hash: inputs.bound.hash()?,
            inputs: inputs.bound.clone(),
            state_head,
            plan_file,
            logs_ref: logs,
            targets,
            refresh: planned.refresh.clone(),
            verdict,
            route: String::new(),
            started_at: cx.now,
            duration_ms: outcome.duration_ms,
        };
        Ok((receipt, route))
    }
}

/// An artifact that has to be there.
pub async fn need(artifacts: &dyn Artifacts, what: &str, digest: &Digest) -> Result<Vec<u8>, PortError> {
    artifacts.get(digest).await?.ok_or_else(|| {
        PortError::broken(
            format!("{what} {digest} is missing among the artifacts"),
            "restore the artifacts from the same backup as the store",
        )
    })
}

/// Keeps a log if it can be kept: no run fails to end for want of its log.
pub async fn keep_log(artifacts: &dyn Artifacts, run: ProvisioningRunId, log: &[u8]) -> Option<Digest> {
    match artifacts.put(log).await {
        Ok(digest) => Some(digest),
        Err(e) => {
            tracing::warn!(%run, error = %e.chain(), "its log can't be kept; it ends without");
            None
        }
    }
}

/// Whose the receipts of a run are.
pub fn owner(run: &ProvisioningRun) -> ReceiptOwner {
    ReceiptOwner {
        provisioning_run_id: run.id,
        tenant_id: run.tenant.clone(),
        project_id: run.project.clone(),
        environment_id: run.environment.clone(),
        specification_id: run.specification,
        specification_version: run.specification_version,
        kind: run.kind(),
    }
}

/// What the policies are asked about a plan: when it is recorded, and again before it is applied.
pub fn question(
    run: &ProvisioningRun,
    class: EnvironmentClass,
    steps: Vec<PlanStep>,
    summary: &PlanSummary,
) -> ApplyQuestion {
    ApplyQuestion {
        tenant: run.tenant.clone(),
        project: run.project.clone(),
        environment: run.environment.clone(),
        class,
        kind: run.kind(),
        requested_by: run.requested_by.clone(),
        summary: summary.clone(),
        steps,
    }
}
