//! One plan-and-apply of a specification version. The plan is recorded before any apply; an apply in production
//! has an authority; receipts are never rewritten; a re-run is a new run.

mod authority;
mod chain;
mod command;
mod state;

use chrono::{DateTime, Utc};
use events::{
    EnvironmentId, Event, PlanSummary, Principal, Program, ProjectId, PromotionId, ProvisioningApplied,
    ProvisioningFailed, ProvisioningKind, ProvisioningPlanned, ProvisioningRunId, ReleaseId, SpecificationId,
    TenantId,
};
use serde::{Deserialize, Serialize};

use crate::aggregate::{Aggregate, Change, Facets, Kind, Scoped};
use crate::digest::Digest;
use crate::routing::Route;

pub use chain::Chain;
pub use command::{NewRun, RunCommand, RunRefusal, run_id};
pub use state::{
    ApplyRecord, Approved, CancelRequest, Evidence, Failure, FailureReason, PlanApproval, PlanRecord,
    RunSource, RunState, Token,
};

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
    /// The chain of work that it was declared in: whatever wakes it later, its events belong there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Chain>,
    /// What was planned.
    pub plan: Option<PlanRecord>,
    /// Who approved the plan; kept when the run goes on, so that it can be seen afterwards.
    #[serde(default)]
    pub approved: Option<PlanApproval>,
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
            chain: new.chain,
            plan: None,
            approved: None,
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

    /// Whether the Applier may take it: the plan is recorded and allowed, or approved.
    pub const fn is_ready_to_apply(&self) -> bool {
        matches!(
            self.state,
            RunState::PlanRecorded { .. } | RunState::AwaitingApproval { approval: Some(_), .. }
        )
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
        let approval = PlanApproval { expires_at: Some(until), ..approval };
        let state = RunState::AwaitingApproval {
            reason: reason.clone(),
            expires_at: *expires_at,
            approval: Some(approval.clone()),
        };
        Ok((ProvisioningRun { state, approved: Some(approval), due: Some(now), ..self.clone() }, vec![]))
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
            begun: Some(self.started_at),
            due: self.due,
        }
    }

    fn decide(&self, command: RunCommand, now: DateTime<Utc>) -> Result<(Self, Vec<Event>), RunRefusal> {
        match command.bounded() {
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
