//! What can be asked of a run, why it says no, and what a new one is made from.

use chrono::{DateTime, Utc};
use events::{
    EnvironmentId, Principal, Program, ProjectId, ProvisioningRunId, ProvisioningState, ReleaseId,
    SpecificationId, TenantId,
};

use super::chain::Chain;
use super::state::{ApplyRecord, Failure, PlanApproval, PlanRecord, RunSource, Token};
use crate::aggregate::Refusal;
use crate::bounds;
use crate::digest::Digest;
use crate::routing::Route;

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

impl RunCommand {
    /// With texts and outputs that fit into a row and an event: the commit that ends a run is never too large.
    pub(super) fn bounded(self) -> RunCommand {
        let short = |failure: Failure| Failure { message: bounds::text(&failure.message), ..failure };
        match self {
            RunCommand::RecordPlan { plan, route, expires_at, logs } => {
                RunCommand::RecordPlan { plan, route: bounded(route), expires_at, logs }
            }
            RunCommand::FailPlan { failure, logs } => RunCommand::FailPlan { failure: short(failure), logs },
            RunCommand::Reject { by, reason, plan_digest } => {
                RunCommand::Reject { by, reason: bounds::text(&reason), plan_digest }
            }
            RunCommand::Finish { token, mut apply, failure, logs } => {
                apply.outputs = bounds::outputs(std::mem::take(&mut apply.outputs));
                RunCommand::Finish { token, apply, failure: failure.map(short), logs }
            }
            RunCommand::Cancel { by, reason } => RunCommand::Cancel { by, reason: bounds::text(&reason) },
            RunCommand::Approve { .. }
            | RunCommand::Expire
            | RunCommand::StartApply { .. }
            | RunCommand::Supersede { .. }
            | RunCommand::LookAgain { .. } => self,
        }
    }
}

fn bounded(route: Route) -> Route {
    match route {
        Route::AwaitApproval { reason } => Route::AwaitApproval { reason: bounds::text(&reason) },
        Route::Propose { reason } => Route::Propose { reason: bounds::text(&reason) },
        // Names of policies: the operator's own.
        Route::Apply { .. } | Route::Forbid { .. } => route,
    }
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
    /// The chain of work that declares it.
    pub chain: Option<Chain>,
}

/// The id of the run for a source: the same promotion is the same run, however often it is told (Rule 5).
pub fn run_id(tenant: &TenantId, source: &str, source_id: &str, attempt: u32) -> ProvisioningRunId {
    let attempt = attempt.to_string();
    let parts = [tenant.as_str(), source, source_id, &attempt];
    ProvisioningRunId(crate::deployment_specification::derived("run", &parts))
}
