//! Runs as people and programs look at them: the specification's fields, and what a person wants to know first.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::aggregate::{Address, Scoped};
use domain::provisioning_run::{Approved, Failure, RunState};
use domain::{EnvironmentSlot, Kind, ProvisioningRun};
use events::{
    ApprovalId, EnvironmentId, PlanSummary, Principal, Program, ProjectId, PromotionId, ProvisioningKind,
    ProvisioningRunId, ProvisioningState, ReleaseId, SpecificationId, TenantId,
};
use ports::rows::{Behind, By, Page};
use ports::{PortError, Store};
use serde::{Deserialize, Serialize};

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// The run.
    pub provisioning_run_id: ProvisioningRunId,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// Its specification.
    pub specification_id: SpecificationId,
    /// The version.
    pub specification_version: u32,
    /// Why it exists.
    pub kind: ProvisioningKind,
    /// The program.
    pub program: Program,
    /// The release.
    pub release_id: Option<ReleaseId>,
    /// The promotion.
    pub promotion_id: Option<PromotionId>,
    /// The approval.
    pub approval_id: Option<ApprovalId>,
    /// Who approved its plan, or its promotion, and when.
    #[serde(default)]
    pub approval: Option<Approved>,
    /// Who asked.
    pub requested_by: Principal,
    /// The run that it repeats.
    pub rerun_of: Option<ProvisioningRunId>,
    /// Its state.
    pub state: ProvisioningState,
    /// Why it waits or how it ended, in a sentence.
    pub detail: String,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What its plan would do.
    pub plan_summary: Option<PlanSummary>,
    /// Digest of the plan receipt.
    pub plan_receipt: Option<String>,
    /// Digest of the apply receipt.
    pub apply_receipt: Option<String>,
    /// Outputs, where one run is asked for; secret ones masked.
    pub outputs: Option<serde_json::Value>,
    /// Digest of the log.
    pub logs_ref: Option<String>,
    /// When it was declared.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
}

/// A run as it is seen, with what its environment's slot says of its wait.
pub fn view(run: &ProvisioningRun, slot: Option<&EnvironmentSlot>) -> RunView {
    let failure = match &run.state {
        RunState::Failed(failure) => Some(failure.clone()),
        RunState::PlanPending
        | RunState::PlanRecorded { .. }
        | RunState::AwaitingApproval { .. }
        | RunState::Applying { .. }
        | RunState::Applied
        | RunState::Rejected { .. }
        | RunState::Cancelled { .. } => None,
    };
    RunView {
        provisioning_run_id: run.id,
        tenant_id: run.tenant.clone(),
        project_id: run.project.clone(),
        environment_id: run.environment.clone(),
        specification_id: run.specification,
        specification_version: run.specification_version,
        kind: run.kind(),
        program: run.program.clone(),
        release_id: run.release,
        promotion_id: run.promotion(),
        approval_id: run.approval().map(|a| a.approval_id),
        approval: run.approval(),
        requested_by: run.requested_by.clone(),
        rerun_of: run.rerun_of,
        state: run.state.state(),
        detail: detail(run, slot),
        failure,
        plan_summary: run.plan.as_ref().map(|p| p.summary.clone()),
        plan_receipt: run.plan.as_ref().map(|p| p.link.receipt.to_string()),
        apply_receipt: run.apply.as_ref().map(|a| a.link.receipt.to_string()),
        outputs: run.apply.as_ref().map(|a| a.outputs.clone()),
        logs_ref: run.logs_ref.as_ref().map(ToString::to_string),
        started_at: run.started_at,
        completed_at: run.completed_at,
    }
}

fn detail(run: &ProvisioningRun, slot: Option<&EnvironmentSlot>) -> String {
    let place = slot.and_then(|s| s.queue.iter().position(|q| q.run == run.id));
    let taint = slot.and_then(|s| s.tainted.as_ref());
    match &run.state {
        RunState::PlanPending | RunState::PlanRecorded { .. } if taint.is_some() => {
            format!("the environment is closed: {}", taint.map(|t| t.reason.as_str()).unwrap_or_default())
        }
        RunState::PlanPending => match place {
            Some(0) => "its plan is being made, or waits for its environment to be created".to_owned(),
            Some(ahead) => format!("{ahead} run(s) are before it"),
            None => "it is not in the queue".to_owned(),
        },
        RunState::PlanRecorded { .. } => "its plan is allowed and goes to the Applier".to_owned(),
        RunState::AwaitingApproval { reason, expires_at, approval: None } => {
            format!("{reason}; open until {}", expires_at.format("%Y-%m-%d %H:%M UTC"))
        }
        RunState::AwaitingApproval { approval: Some(approval), .. } => match place {
            Some(0) | None => format!("approved by {}", approval.by),
            Some(ahead) => format!("approved by {}; {ahead} run(s) are before it", approval.by),
        },
        RunState::Applying { cancel: Some(cancel), .. } => {
            format!("{} asked it to stop: {}", cancel.by, cancel.reason)
        }
        RunState::Applying { token, .. } => format!("applying under token {token}"),
        RunState::Applied => "applied".to_owned(),
        RunState::Failed(failure) => format!("{}: {}", failure.reason.code(), failure.message),
        RunState::Rejected { by: Some(by), reason } => format!("rejected by {by}: {reason}"),
        RunState::Rejected { by: None, reason } => reason.clone(),
        RunState::Cancelled { by: Some(by), reason } => format!("cancelled by {by}: {reason}"),
        RunState::Cancelled { by: None, reason } => reason.clone(),
    }
}

/// One run; None where the tenant has none of that id.
pub async fn run(
    store: &Store,
    tenant: &TenantId,
    id: ProvisioningRunId,
) -> Result<Option<RunView>, PortError> {
    let Some(run) = store.load::<ProvisioningRun>(&Scoped::new(tenant.clone(), id)).await? else {
        return Ok(None);
    };
    let slot = Scoped::new(tenant.clone(), run.environment.clone());
    let slot = store.load::<EnvironmentSlot>(&slot).await?;
    Ok(Some(view(&run, slot.as_deref())))
}

/// Which runs of a tenant are listed.
pub enum Listed<'a> {
    /// Of all its environments or of one, the newest first: those behind a run, or from the newest on.
    Newest(Option<&'a EnvironmentId>, Option<&'a RunView>),
    /// Those whose id begins so.
    Beginning(&'a str),
}

/// At most `limit` runs of a tenant, without their outputs, which may be long.
pub async fn runs(
    store: &Store,
    tenant: &TenantId,
    listed: Listed<'_>,
    limit: u32,
) -> Result<Vec<RunView>, PortError> {
    let mut page = Page { limit, after: None };
    let mut views = vec![];
    let mut slots = BTreeMap::new();
    let key;
    let by = match listed {
        Listed::Newest(environment, None) => By::Newest(tenant, environment, Behind::Nothing),
        Listed::Newest(environment, Some(run)) => {
            key = Scoped::new(tenant.clone(), run.provisioning_run_id).key(Kind::ProvisioningRun);
            By::Newest(tenant, environment, Behind::This(run.started_at, &key))
        }
        Listed::Beginning(id) => {
            key = Scoped::new(tenant.clone(), id).key(Kind::ProvisioningRun);
            By::Beginning(tenant, &key)
        }
    };
    // A piece of a listing may be short, though more follow.
    loop {
        let (runs, next) = store.find::<ProvisioningRun>(by, page).await?;
        for run in runs {
            if run.completed_at.is_none() && !slots.contains_key(&run.environment) {
                let slot = Scoped::new(tenant.clone(), run.environment.clone());
                slots.insert(run.environment.clone(), store.load::<EnvironmentSlot>(&slot).await?);
            }
            let slot = slots.get(&run.environment).and_then(Option::as_deref);
            views.push(RunView { outputs: None, ..view(&run, slot) });
        }
        let left = limit.saturating_sub(u32::try_from(views.len()).unwrap_or(u32::MAX));
        match next {
            Some(after) if left > 0 => page = Page { limit: left, after: Some(after) },
            Some(_) | None => return Ok(views),
        }
    }
}
