//! One plan-and-apply of a specification version. The plan is recorded before any apply; an apply in production
//! has an authority; receipts are never rewritten; a re-run is a new run.

use chrono::{DateTime, Utc};
use events::{
    ApprovalId, EnvironmentClass, EnvironmentId, Event, PlanSummary, Principal, Program, ProjectId,
    PromotionApproval, PromotionId, ProvisioningApplied, ProvisioningFailed, ProvisioningKind,
    ProvisioningPlanned, ProvisioningRunId, ProvisioningState, ReleaseId, SpecificationId, TenantId,
};
use serde::{Deserialize, Serialize};

use crate::aggregate::{Aggregate, Change, Facets, Kind, Refusal, Scoped};
use crate::digest::Digest;
use crate::plan::BoundInputs;
use crate::receipt::ChainLink;
use crate::routing::{Authority, Route};

/// The state of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProvisioningRun {
    /// Its id: UUIDv5 of tenant, source kind, source id and attempt.
    pub id: ProvisioningRunId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its project.
    pub project: ProjectId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// Its specification.
    pub specification: SpecificationId,
    /// The version that it acts on.
    pub specification_version: u32,
    /// Program, for supersession and for tables.
    pub program: Program,
    /// The release.
    pub release: Option<ReleaseId>,
    /// Where it comes from.
    pub source: RunSource,
    /// Who asked: never the one who approves.
    pub requested_by: Principal,
    /// The run that it repeats.
    pub rerun_of: Option<ProvisioningRunId>,
    /// What was planned.
    pub plan: Option<PlanRecord>,
    /// What was applied.
    pub apply: Option<ApplyRecord>,
    /// Where it stands.
    pub state: RunState,
    /// The log of its last step, among the artifacts.
    pub logs_ref: Option<Digest>,
    /// When somebody has to look at it again.
    pub due: Option<DateTime<Utc>>,
    /// When it was declared.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
}

/// Where a run comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RunSource {
    /// A promotion, with the approval that came with it.
    Promotion {
        /// The promotion.
        promotion: PromotionId,
        /// Its approval: covers {environment, class, release, full commit}.
        approval: PromotionApproval,
    },
    /// A new environment.
    Baseline,
    /// A person.
    Manual,
    /// Declared state is brought back.
    Reconciliation,
    /// A pool changes its size.
    PoolResize,
}

impl RunSource {
    /// The run's kind.
    pub const fn kind(&self) -> ProvisioningKind {
        match self {
            RunSource::Promotion { .. } => ProvisioningKind::Promotion,
            RunSource::Baseline => ProvisioningKind::Baseline,
            RunSource::Manual => ProvisioningKind::Manual,
            RunSource::Reconciliation => ProvisioningKind::Reconciliation,
            RunSource::PoolResize => ProvisioningKind::PoolResize,
        }
    }
}

/// Where a run stands. `PlanPending` and `PlanRecorded` are both the specification's Planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state")]
pub enum RunState {
    /// Declared and queued.
    PlanPending,
    /// Planned, on its way to the Applier.
    PlanRecorded {
        /// What lets the apply through.
        authority: Authority,
    },
    /// A person has to decide, or has decided and the Applier is on its way.
    AwaitingApproval {
        /// Why.
        reason: String,
        /// When waiting ends in Rejected.
        expires_at: DateTime<Utc>,
        /// The approval, once given.
        approval: Option<PlanApproval>,
    },
    /// Pulumi may be changing resources.
    Applying {
        /// Who may end it.
        token: Token,
        /// Since when.
        since: DateTime<Utc>,
        /// What let it through.
        authority: Authority,
        /// Somebody asked to stop.
        cancel: Option<CancelRequest>,
    },
    /// Ended.
    Applied,
    /// Ended.
    Failed(Failure),
    /// Ended.
    Rejected {
        /// Who rejected it; None where the approval expired.
        by: Option<Principal>,
        /// Why.
        reason: String,
    },
    /// Ended.
    Cancelled {
        /// Who cancelled it; None where a policy or a newer promotion did.
        by: Option<Principal>,
        /// Why.
        reason: String,
    },
}

impl RunState {
    /// The specification's name.
    pub const fn state(&self) -> ProvisioningState {
        match self {
            RunState::PlanPending | RunState::PlanRecorded { .. } => ProvisioningState::Planned,
            RunState::AwaitingApproval { .. } => ProvisioningState::AwaitingApproval,
            RunState::Applying { .. } => ProvisioningState::Applying,
            RunState::Applied => ProvisioningState::Applied,
            RunState::Failed(_) => ProvisioningState::Failed,
            RunState::Rejected { .. } => ProvisioningState::Rejected,
            RunState::Cancelled { .. } => ProvisioningState::Cancelled,
        }
    }
    /// Whether nothing more can happen to it.
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            RunState::Applied | RunState::Failed(_) | RunState::Rejected { .. } | RunState::Cancelled { .. }
        )
    }
}

/// Who may end an apply: the store's epoch (raised by each recovery) and a number that only grows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Token {
    /// Raised by each recovery from a backup (Rule 27).
    pub epoch: u32,
    /// The environment's apply sequence.
    pub sequence: u64,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.epoch, self.sequence)
    }
}

/// A person's wish to stop an apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// Who.
    pub by: Principal,
    /// Why.
    pub reason: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// An approval of one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanApproval {
    /// The approval.
    pub approval: ApprovalId,
    /// Who agreed.
    pub by: Principal,
    /// When.
    pub at: DateTime<Utc>,
    /// Until when it may be used.
    pub expires_at: Option<DateTime<Utc>>,
    /// The plan that was read.
    pub plan_digest: Digest,
}

/// What was planned: the receipt and what an apply must find unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The receipt's link in the environment's chain.
    pub link: ChainLink,
    /// Counts.
    pub summary: PlanSummary,
    /// SHA-256 of the plan file: binds.
    pub plan_digest: Digest,
    /// SHA-256 of the steps with values: compares.
    pub steps_digest: Digest,
    /// What it was made from.
    pub inputs: BoundInputs,
    /// Hash of the inputs.
    pub inputs_hash: Digest,
    /// The state that it was made against.
    pub state_head: Option<Digest>,
    /// The stack's configuration as it was planned with, secrets encrypted; among the artifacts.
    pub stack_config: Digest,
    /// When it was recorded.
    pub at: DateTime<Utc>,
}

/// What was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyRecord {
    /// The receipt's link in the environment's chain.
    pub link: ChainLink,
    /// The state after; None where it didn't move.
    pub state: Option<Digest>,
    /// Outputs as the receipt holds them; secret ones masked.
    pub outputs: serde_json::Value,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// By code.
    pub reason: FailureReason,
    /// In a sentence, with what to do next.
    pub message: String,
}

/// Why a run failed, by code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureReason {
    /// The program could not be planned.
    PlanFailed,
    /// Something that the plan rests on moved; nothing was touched.
    PlanStale,
    /// Pulumi reported a failure.
    ApplyFailed,
    /// It ran longer than allowed.
    TimedOut,
    /// It printed more than allowed.
    OutputLimit,
    /// Whoever ran it died.
    Interrupted,
    /// A person stopped it.
    Cancelled,
}

impl FailureReason {
    /// The code.
    pub const fn code(self) -> &'static str {
        match self {
            FailureReason::PlanFailed => "plan-failed",
            FailureReason::PlanStale => "plan-stale",
            FailureReason::ApplyFailed => "apply-failed",
            FailureReason::TimedOut => "timed-out",
            FailureReason::OutputLimit => "output-limit",
            FailureReason::Interrupted => "interrupted",
            FailureReason::Cancelled => "cancelled",
        }
    }
}

/// What can be asked of a run.
#[derive(Debug, Clone)]
pub enum RunCommand {
    /// The plan exists; go where the routing table says.
    RecordPlan {
        /// The plan.
        plan: Box<PlanRecord>,
        /// Where it goes.
        route: Route,
        /// When waiting for a person ends.
        expires_at: DateTime<Utc>,
        /// Its log.
        logs: Option<Digest>,
    },
    /// The plan failed.
    FailPlan {
        /// Why.
        failure: Failure,
        /// Its log.
        logs: Option<Digest>,
    },
    /// Somebody agreed to the plan.
    Approve {
        /// The approval.
        approval: PlanApproval,
    },
    /// Somebody refused the plan.
    Reject {
        /// Who.
        by: Principal,
        /// Why.
        reason: String,
        /// The plan that was read.
        plan_digest: Digest,
    },
    /// Nobody decided in time.
    Expire,
    /// The Applier claims the run: its token, and when somebody has to look at it again.
    StartApply {
        /// Who may end it.
        token: Token,
        /// When somebody has to look at it again.
        due: DateTime<Utc>,
    },
    /// The apply ended.
    Finish {
        /// Who ends it.
        token: Token,
        /// What was applied.
        apply: Box<ApplyRecord>,
        /// Why it failed; None where it didn't.
        failure: Option<Failure>,
        /// Its log.
        logs: Option<Digest>,
    },
    /// A person doesn't want it any more.
    Cancel {
        /// Who.
        by: Principal,
        /// Why.
        reason: String,
    },
    /// A newer promotion of the same program took its place.
    Supersede {
        /// The newer run.
        by: ProvisioningRunId,
    },
    /// Somebody looked at it; look again then.
    LookAgain {
        /// When.
        due: DateTime<Utc>,
    },
}

/// Why a run says no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunRefusal {
    /// The command doesn't fit the state.
    #[error("run {run} is {state}, so it can't {what}; {next}")]
    WrongState {
        /// The run.
        run: ProvisioningRunId,
        /// Its state.
        state: ProvisioningState,
        /// What was asked.
        what: &'static str,
        /// What to do.
        next: &'static str,
    },
    /// The approval is of another plan.
    #[error(
        "the approval is of plan {got}, but run {run} has plan {expected}; read the plan with `runtime-cloud runs show {run}` and decide again"
    )]
    OtherPlan {
        /// The run.
        run: ProvisioningRunId,
        /// Its plan.
        expected: String,
        /// The approval's plan.
        got: String,
    },
    /// Requester and approver are one.
    #[error("{by} requested run {run} and can't approve it; ask another person")]
    OwnApproval {
        /// The run.
        run: ProvisioningRunId,
        /// Who.
        by: Principal,
    },
    /// The approval came too late, or has run out.
    #[error("the approval of run {run} expired at {expired}; start a new run and have it approved")]
    Expired {
        /// The run.
        run: ProvisioningRunId,
        /// When.
        expired: DateTime<Utc>,
    },
    /// It is too early to expire.
    #[error("the approval of run {run} is open until {until}; wait, or reject it")]
    NotYet {
        /// The run.
        run: ProvisioningRunId,
        /// Until when.
        until: DateTime<Utc>,
    },
    /// Nothing lets the apply through.
    #[error("nothing covers an apply of run {run}: {why}; have its plan approved")]
    NoAuthority {
        /// The run.
        run: ProvisioningRunId,
        /// What is missing.
        why: String,
    },
    /// The token isn't the one under which the run applies.
    #[error("run {run} is applied under token {held}, not {got}; whoever holds {got} must stop")]
    OtherToken {
        /// The run.
        run: ProvisioningRunId,
        /// The run's.
        held: String,
        /// The command's.
        got: String,
    },
}

impl Refusal for RunRefusal {
    fn code(&self) -> &'static str {
        match self {
            RunRefusal::WrongState { .. } => "run-wrong-state",
            RunRefusal::OtherPlan { .. } => "run-other-plan",
            RunRefusal::OwnApproval { .. } => "run-own-approval",
            RunRefusal::Expired { .. } => "run-approval-expired",
            RunRefusal::NotYet { .. } => "run-approval-open",
            RunRefusal::NoAuthority { .. } => "run-no-authority",
            RunRefusal::OtherToken { .. } => "run-other-token",
        }
    }
}

/// What a new run is made from.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub id: ProvisioningRunId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its project.
    pub project: ProjectId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// Its specification.
    pub specification: SpecificationId,
    /// The version.
    pub specification_version: u32,
    /// The program.
    pub program: Program,
    /// The release.
    pub release: Option<ReleaseId>,
    /// Where it comes from.
    pub source: RunSource,
    /// Who asked.
    pub requested_by: Principal,
    /// The run that it repeats.
    pub rerun_of: Option<ProvisioningRunId>,
}

/// The id of the run for a source: the same promotion is the same run, however often it is told (Rule 5).
pub fn run_id(tenant: &TenantId, source: &str, source_id: &str, attempt: u32) -> ProvisioningRunId {
    let attempt = attempt.to_string();
    let parts = [tenant.as_str(), source, source_id, &attempt];
    ProvisioningRunId(crate::deployment_specification::derived("run", &parts))
}

impl ProvisioningRun {
    /// A new run, its plan pending.
    pub fn declare(new: NewRun, due: DateTime<Utc>, now: DateTime<Utc>) -> Change<ProvisioningRun> {
        let run = ProvisioningRun {
            id: new.id,
            tenant: new.tenant,
            project: new.project,
            environment: new.environment,
            specification: new.specification,
            specification_version: new.specification_version,
            program: new.program,
            release: new.release,
            source: new.source,
            requested_by: new.requested_by,
            rerun_of: new.rerun_of,
            plan: None,
            apply: None,
            state: RunState::PlanPending,
            logs_ref: None,
            due: Some(due),
            started_at: now,
            completed_at: None,
        };
        Change::created(run, vec![])
    }

    /// Its kind.
    pub const fn kind(&self) -> ProvisioningKind {
        self.source.kind()
    }

    /// The promotion that asked.
    pub const fn promotion(&self) -> Option<PromotionId> {
        match &self.source {
            RunSource::Promotion { promotion, .. } => Some(*promotion),
            RunSource::Baseline | RunSource::Manual | RunSource::Reconciliation | RunSource::PoolResize => {
                None
            }
        }
    }

    /// The approval that let it through or came with it.
    pub fn approval(&self) -> Option<ApprovalId> {
        if let RunState::AwaitingApproval { approval: Some(approval), .. } = &self.state {
            return Some(approval.approval);
        }
        match &self.source {
            RunSource::Promotion { approval, .. } => Some(approval.approval_id),
            RunSource::Baseline | RunSource::Manual | RunSource::Reconciliation | RunSource::PoolResize => {
                None
            }
        }
    }

    /// Whether the promotion's approval covers an apply: its environment, class, release and full commit are the
    /// ones that were approved, and it hasn't run out (Rule 18).
    pub fn promotion_covers(&self, inputs: &BoundInputs, now: DateTime<Utc>) -> bool {
        let RunSource::Promotion { approval, .. } = &self.source else { return false };
        inputs.release == self.release
            && inputs.commit == self.program.commit
            && inputs.repository == self.program.repository
            && inputs.path == self.program.path
            && approval.expires_at.is_none_or(|until| now <= until)
    }

    /// Whether the Applier may take it: the plan is recorded and allowed, or approved.
    pub const fn is_ready_to_apply(&self) -> bool {
        matches!(
            self.state,
            RunState::PlanRecorded { .. } | RunState::AwaitingApproval { approval: Some(_), .. }
        )
    }

    /// What lets an apply through now, or why nothing does. Checked when the run is claimed, and again under the
    /// environment's lock.
    pub fn authority(&self, now: DateTime<Utc>) -> Result<Authority, RunRefusal> {
        let missing = |why: String| RunRefusal::NoAuthority { run: self.id, why };
        let Some(plan) = &self.plan else { return Err(missing("no plan is recorded".to_owned())) };
        let authority = match &self.state {
            RunState::PlanRecorded { authority: Authority::PlanApproval } => {
                return Err(missing("nobody approved the plan yet".to_owned()));
            }
            RunState::PlanRecorded { authority } | RunState::Applying { authority, .. } => authority.clone(),
            RunState::AwaitingApproval { approval: Some(approval), .. } => {
                if approval.plan_digest != plan.plan_digest {
                    return Err(missing("the approval is of another plan".to_owned()));
                }
                if let Some(expired) = approval.expires_at.filter(|until| now > *until) {
                    return Err(RunRefusal::Expired { run: self.id, expired });
                }
                Authority::PlanApproval
            }
            RunState::AwaitingApproval { approval: None, .. } => {
                return Err(missing("nobody approved the plan yet".to_owned()));
            }
            RunState::PlanPending
            | RunState::Applied
            | RunState::Failed(_)
            | RunState::Rejected { .. }
            | RunState::Cancelled { .. } => return Err(missing("it has no plan to apply".to_owned())),
        };
        if authority == Authority::PromotionApproval && !self.promotion_covers(&plan.inputs, now) {
            return Err(missing(
                "the promotion's approval doesn't cover this release and commit, or it has expired"
                    .to_owned(),
            ));
        }
        let production = plan.inputs.class == EnvironmentClass::Production;
        let deletes = plan.summary.deletes + plan.summary.replaces;
        let fits = match (self.kind(), &authority) {
            (_, Authority::PlanApproval) | (ProvisioningKind::Reconciliation, Authority::Acceptance) => true,
            (ProvisioningKind::Promotion, Authority::PromotionApproval) => {
                !production || plan.summary.protected == 0
            }
            (ProvisioningKind::Reconciliation, Authority::Policy { .. }) if deletes > 0 => {
                return Err(missing(format!(
                    "a reconciliation with {deletes} delete(s) must become a proposal"
                )));
            }
            (
                ProvisioningKind::Promotion | ProvisioningKind::Manual | ProvisioningKind::Reconciliation,
                Authority::Policy { policies },
            ) => !production && !policies.is_empty(),
            (ProvisioningKind::Baseline | ProvisioningKind::PoolResize, Authority::Policy { policies }) => {
                !policies.is_empty()
            }
            (_, Authority::PromotionApproval | Authority::Acceptance) => false,
        };
        if !fits {
            return Err(missing(format!("{authority:?} is not enough for a {} run", self.kind())));
        }
        Ok(authority)
    }

    fn planned(&self, summary: PlanSummary) -> Event {
        ProvisioningPlanned {
            provisioning_run_id: self.id,
            tenant_id: self.tenant.clone(),
            environment_id: self.environment.clone(),
            kind: self.kind(),
            promotion_id: self.promotion(),
            plan_summary: summary,
        }
        .into()
    }

    fn failed(&self, failure: &Failure) -> Event {
        ProvisioningFailed {
            provisioning_run_id: self.id,
            tenant_id: self.tenant.clone(),
            environment_id: self.environment.clone(),
            kind: self.kind(),
            promotion_id: self.promotion(),
            reason: format!("{}: {}", failure.reason.code(), failure.message),
        }
        .into()
    }

    fn applied(&self, outputs: serde_json::Value) -> Event {
        ProvisioningApplied {
            provisioning_run_id: self.id,
            tenant_id: self.tenant.clone(),
            project_id: self.project.clone(),
            environment_id: self.environment.clone(),
            kind: self.kind(),
            promotion_id: self.promotion(),
            specification_version: self.specification_version,
            outputs,
        }
        .into()
    }

    fn refuse(&self, what: &'static str, next: &'static str) -> RunRefusal {
        RunRefusal::WrongState { run: self.id, state: self.state.state(), what, next }
    }

    fn ended(&self, state: RunState, now: DateTime<Utc>) -> Self {
        ProvisioningRun { state, due: None, completed_at: Some(now), ..self.clone() }
    }

    fn record_plan(
        &self,
        plan: PlanRecord,
        route: Route,
        expires_at: DateTime<Utc>,
        logs: Option<Digest>,
        now: DateTime<Utc>,
    ) -> Result<(Self, Vec<Event>), RunRefusal> {
        let summary = plan.summary.clone();
        let mut next = ProvisioningRun { plan: Some(plan), logs_ref: logs, ..self.clone() };
        match route {
            Route::Apply { authority } => {
                next.state = RunState::PlanRecorded { authority };
                next.due = Some(now);
                // The invariants hold whatever the router said.
                next.authority(now)?;
                let planned = next.planned(summary);
                Ok((next, vec![planned]))
            }
            Route::AwaitApproval { reason } => {
                let mut summary = summary;
                summary.approval_required =
                    Some(events::ApprovalRequired { reason: reason.clone(), expires_at });
                if let Some(plan) = next.plan.as_mut() {
                    plan.summary = summary.clone();
                }
                next.state = RunState::AwaitingApproval { reason, expires_at, approval: None };
                next.due = Some(expires_at);
                let planned = next.planned(summary);
                Ok((next, vec![planned]))
            }
            Route::Propose { reason } => {
                let reason = format!("became a proposal: {reason}");
                let next = next.ended(RunState::Cancelled { by: None, reason }, now);
                let planned = next.planned(summary);
                Ok((next, vec![planned]))
            }
            Route::Forbid { policies } => {
                let reason = format!("forbidden by policy {}", policies.join(", "));
                let next = next.ended(RunState::Cancelled { by: None, reason }, now);
                let planned = next.planned(summary);
                Ok((next, vec![planned]))
            }
        }
    }

    fn approve(
        &self,
        approval: PlanApproval,
        expires_at: DateTime<Utc>,
        given: Option<&PlanApproval>,
        now: DateTime<Utc>,
    ) -> Result<(Self, Vec<Event>), RunRefusal> {
        let expected = self.plan.as_ref().map(|p| p.plan_digest.clone());
        if expected.as_ref() != Some(&approval.plan_digest) {
            return Err(RunRefusal::OtherPlan {
                run: self.id,
                expected: expected.map(|d| d.to_string()).unwrap_or_default(),
                got: approval.plan_digest.to_string(),
            });
        }
        if approval.by == self.requested_by {
            return Err(RunRefusal::OwnApproval { run: self.id, by: approval.by });
        }
        let until = approval.expires_at.map_or(expires_at, |own| own.min(expires_at));
        if now > until || approval.at > until {
            return Err(RunRefusal::Expired { run: self.id, expired: until });
        }
        // The first approval stands; a repeated one changes nothing.
        if given.is_some() {
            return Ok((self.clone(), vec![]));
        }
        let RunState::AwaitingApproval { reason, expires_at, .. } = &self.state else {
            return Err(self.refuse("be approved", "start a new run"));
        };
        let state = RunState::AwaitingApproval {
            reason: reason.clone(),
            expires_at: *expires_at,
            approval: Some(PlanApproval { expires_at: Some(until), ..approval }),
        };
        Ok((ProvisioningRun { state, due: Some(now), ..self.clone() }, vec![]))
    }

    fn start_apply(
        &self,
        token: Token,
        due: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<(Self, Vec<Event>), RunRefusal> {
        let authority = self.authority(now)?;
        let state = RunState::Applying { token, since: now, authority, cancel: None };
        Ok((ProvisioningRun { state, due: Some(due), ..self.clone() }, vec![]))
    }
}

const ENDED: &str = "it has ended: start a new run with `runtime-cloud plan --rerun`";

impl Aggregate for ProvisioningRun {
    const KIND: Kind = Kind::ProvisioningRun;
    type Id = Scoped<ProvisioningRunId>;
    type Command = RunCommand;
    type Refusal = RunRefusal;

    fn id(&self) -> Scoped<ProvisioningRunId> {
        Scoped::new(self.tenant.clone(), self.id)
    }

    fn facets(&self) -> Facets {
        Facets {
            tenant: self.tenant.clone(),
            environment: Some(self.environment.clone()),
            pool: None,
            state: self.state.state().as_str(),
            due: self.due,
        }
    }

    fn decide(&self, command: RunCommand, now: DateTime<Utc>) -> Result<(Self, Vec<Event>), RunRefusal> {
        match command {
            RunCommand::RecordPlan { plan, route, expires_at, logs } => match &self.state {
                RunState::PlanPending => self.record_plan(*plan, route, expires_at, logs, now),
                RunState::PlanRecorded { .. }
                | RunState::AwaitingApproval { .. }
                | RunState::Applying { .. } => {
                    Err(self.refuse("record another plan", "its recorded plan stands"))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("record a plan", ENDED)),
            },
            RunCommand::FailPlan { failure, logs } => match &self.state {
                RunState::PlanPending | RunState::PlanRecorded { .. } => {
                    let failed = self.failed(&failure);
                    let next = self.ended(RunState::Failed(failure), now);
                    Ok((
                        ProvisioningRun { logs_ref: logs.or_else(|| self.logs_ref.clone()), ..next },
                        vec![failed],
                    ))
                }
                RunState::AwaitingApproval { .. } | RunState::Applying { .. } => {
                    Err(self.refuse("fail its plan", "its recorded plan stands"))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("fail its plan", ENDED)),
            },
            RunCommand::Approve { approval } => match &self.state {
                RunState::AwaitingApproval { expires_at, approval: given, .. } => {
                    self.approve(approval, *expires_at, given.as_ref(), now)
                }
                RunState::PlanPending => Err(self.refuse("be approved", "wait until its plan is recorded")),
                RunState::PlanRecorded { .. } | RunState::Applying { .. } => {
                    Err(self.refuse("be approved", "it needs no approval"))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("be approved", ENDED)),
            },
            RunCommand::Reject { by, reason, plan_digest } => match &self.state {
                RunState::AwaitingApproval { approval: None, .. } => {
                    let expected = self.plan.as_ref().map(|p| p.plan_digest.clone());
                    if expected.as_ref() != Some(&plan_digest) {
                        return Err(RunRefusal::OtherPlan {
                            run: self.id,
                            expected: expected.map(|d| d.to_string()).unwrap_or_default(),
                            got: plan_digest.to_string(),
                        });
                    }
                    Ok((self.ended(RunState::Rejected { by: Some(by), reason }, now), vec![]))
                }
                RunState::AwaitingApproval { approval: Some(_), .. } => {
                    Err(self.refuse("be rejected", "it was approved already; cancel it instead"))
                }
                RunState::PlanPending | RunState::PlanRecorded { .. } | RunState::Applying { .. } => {
                    Err(self.refuse("be rejected", "cancel it instead"))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("be rejected", ENDED)),
            },
            RunCommand::Expire => match &self.state {
                RunState::AwaitingApproval { expires_at, approval, .. } => {
                    let until = approval.as_ref().and_then(|a| a.expires_at).unwrap_or(*expires_at);
                    if now <= until {
                        return Err(RunRefusal::NotYet { run: self.id, until });
                    }
                    let reason = match approval {
                        None => "nobody decided in time",
                        Some(_) => "its approval expired before it could be applied",
                    };
                    let state = RunState::Rejected { by: None, reason: reason.to_owned() };
                    Ok((self.ended(state, now), vec![]))
                }
                RunState::PlanPending | RunState::PlanRecorded { .. } | RunState::Applying { .. } => {
                    Err(self.refuse("expire", "it waits for nobody"))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("expire", ENDED)),
            },
            RunCommand::StartApply { token, due } => match &self.state {
                RunState::PlanRecorded { .. } | RunState::AwaitingApproval { .. } => {
                    self.start_apply(token, due, now)
                }
                RunState::PlanPending => Err(self.refuse("be applied", "wait until its plan is recorded")),
                RunState::Applying { .. } => Err(self.refuse("be applied again", "wait for its end")),
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("be applied", ENDED)),
            },
            RunCommand::Finish { token, apply, failure, logs } => match &self.state {
                RunState::Applying { token: held, .. } => {
                    if *held != token {
                        return Err(RunRefusal::OtherToken {
                            run: self.id,
                            held: held.to_string(),
                            got: token.to_string(),
                        });
                    }
                    let event = match &failure {
                        Some(failure) => self.failed(failure),
                        None => self.applied(apply.outputs.clone()),
                    };
                    let state = failure.map_or(RunState::Applied, RunState::Failed);
                    let next = self.ended(state, now);
                    Ok((ProvisioningRun { apply: Some(*apply), logs_ref: logs, ..next }, vec![event]))
                }
                RunState::PlanPending | RunState::PlanRecorded { .. } | RunState::AwaitingApproval { .. } => {
                    Err(self.refuse("finish", "it isn't being applied"))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("finish", ENDED)),
            },
            RunCommand::Cancel { by, reason } => match &self.state {
                RunState::PlanPending | RunState::PlanRecorded { .. } | RunState::AwaitingApproval { .. } => {
                    Ok((self.ended(RunState::Cancelled { by: Some(by), reason }, now), vec![]))
                }
                // The first wish stands: Pulumi is asked to stop once.
                RunState::Applying { cancel: Some(_), .. } => Ok((self.clone(), vec![])),
                RunState::Applying { token, since, authority, cancel: None } => {
                    let state = RunState::Applying {
                        token: token.clone(),
                        since: *since,
                        authority: authority.clone(),
                        cancel: Some(CancelRequest { by, reason, at: now }),
                    };
                    Ok((ProvisioningRun { state, due: Some(now), ..self.clone() }, vec![]))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("be cancelled", "it has ended already")),
            },
            RunCommand::Supersede { by } => match &self.state {
                RunState::PlanPending | RunState::PlanRecorded { .. } | RunState::AwaitingApproval { .. } => {
                    let reason = format!("superseded by run {by}, a newer promotion of the same program");
                    Ok((self.ended(RunState::Cancelled { by: None, reason }, now), vec![]))
                }
                RunState::Applying { .. } => {
                    Err(self.refuse("be superseded", "the newer run waits for its end"))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => Err(self.refuse("be superseded", "it has ended already")),
            },
            RunCommand::LookAgain { due } => match &self.state {
                RunState::PlanPending
                | RunState::PlanRecorded { .. }
                | RunState::AwaitingApproval { .. }
                | RunState::Applying { .. } => {
                    Ok((ProvisioningRun { due: Some(due), ..self.clone() }, vec![]))
                }
                RunState::Applied
                | RunState::Failed(_)
                | RunState::Rejected { .. }
                | RunState::Cancelled { .. } => {
                    Err(self.refuse("be looked at again", "it has ended already"))
                }
            },
        }
    }
}
