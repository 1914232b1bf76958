//! Provisioning runs.

use ::events::{ApprovalDecided, ApprovalId, Decision, EnvironmentId, ProvisioningRunId};
use application::commands::plan_provisioning::PlanRequest;
use application::declare::Declared;
use application::handlers::apply_approval;
use application::queries::{Listed, RunView, runs as query};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use domain::{Digest, Environment};
use ports::receipts::blob_key;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Shared;
use crate::extract::{self, Path, Query};
use crate::identity::Caller;
use crate::problem::Problem;

/// Plans.
pub(crate) async fn plan(
    State(api): State<Shared>,
    caller: Caller,
    Path(environment): Path<EnvironmentId>,
    extract::Json(mut request): extract::Json<PlanRequest>,
) -> Result<(StatusCode, Json<Declared>), Problem> {
    request.environment_id = environment;
    let known = api.store.load::<Environment>(&request.environment_id).await?;
    if known.is_none_or(|e| e.tenant != caller.tenant) {
        let detail = format!(
            "environment {} is unknown; create it with `runtime-cloud environments create`",
            request.environment_id
        );
        return Err(Problem::new(404, "not-found", detail));
    }
    if let Some(run) = request.rerun_of {
        need(&api, &caller, run).await?;
    }
    let (tenant, by) = (&caller.tenant, &caller.principal);
    let request = &request;
    let plan = |cx| {
        let api = &api;
        async move { api.plan.run(tenant, request.clone(), by.clone(), &cx).await }
    };
    let declared = api.settled(plan).await?;
    Ok((StatusCode::ACCEPTED, Json(declared)))
}

/// How many runs are listed at most, and where none is asked for.
const PAGE: u32 = 100;

/// Which runs are listed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Of one environment.
    environment: Option<EnvironmentId>,
    /// Behind this run: the last one of the page before.
    after: Option<ProvisioningRunId>,
    /// Those whose id begins so, in the order of their ids.
    beginning: Option<String>,
    /// At most so many.
    limit: Option<u32>,
}

/// The newest first, a page of them: the next one is behind its last run.
pub(crate) async fn list(
    State(api): State<Shared>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Result<Json<Vec<RunView>>, Problem> {
    let wrong = |detail: String| Problem::new(400, "invalid-query", detail);
    let limit = extract::limit(filter.limit, PAGE)?;
    let after = match filter.after {
        Some(run) => Some(need(&api, &caller, run).await?),
        None => None,
    };
    let environment = filter.environment.as_ref();
    if let (Some(run), Some(environment)) = (&after, environment)
        && run.environment_id != *environment
    {
        return Err(wrong(format!(
            "after names run {}, which is not of environment {environment}",
            run.provisioning_run_id
        )));
    }
    let beginning = filter.beginning.map(|id| id.to_ascii_lowercase());
    let listed = match &beginning {
        None => Listed::Newest(environment, after.as_ref()),
        Some(_) if environment.is_some() || after.is_some() => {
            return Err(wrong("beginning goes with limit alone".to_owned()));
        }
        Some(id) if id.is_empty() || !id.chars().all(|c| c == '-' || c.is_ascii_hexdigit()) => {
            return Err(wrong(format!("beginning {id:?} must be the beginning of a run's id")));
        }
        Some(id) => Listed::Beginning(id),
    };
    Ok(Json(query::runs(&api.store, &caller.tenant, listed, limit).await?))
}

async fn need(api: &Shared, caller: &Caller, run: ProvisioningRunId) -> Result<RunView, Problem> {
    let found = query::run(&api.store, &caller.tenant, run).await?;
    found.ok_or_else(|| Problem::not_found(format!("run {run}")))
}

/// One.
pub(crate) async fn show(
    State(api): State<Shared>,
    caller: Caller,
    Path(run): Path<ProvisioningRunId>,
) -> Result<Json<RunView>, Problem> {
    Ok(Json(need(&api, &caller, run).await?))
}

async fn receipt(
    api: &Shared,
    run: &RunView,
    digest: Option<&String>,
    what: &str,
) -> Result<impl IntoResponse + use<>, Problem> {
    let none = || {
        let id = run.provisioning_run_id;
        let detail = match run.completed_at {
            None => format!("run {id} has no receipt of its {what} yet; wait for its end"),
            Some(_) => format!(
                "run {id} ended without a receipt of its {what} ({}: {}); see `runtime-cloud runs show {id}`",
                run.state, run.detail
            ),
        };
        Problem::new(404, "no-receipt", detail)
    };
    let digest = digest.and_then(|d| Digest::parse(d)).ok_or_else(none)?;
    let bytes = api.receipts.get(&blob_key(&digest)).await?.ok_or_else(none)?;
    if Digest::of(&bytes) != digest {
        let detail = format!("receipt {digest} was changed; run `runtime-cloud receipts verify`");
        return Err(Problem::new(500, "receipt-changed", detail));
    }
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes))
}

/// The receipt of the plan.
pub(crate) async fn plan_receipt(
    State(api): State<Shared>,
    caller: Caller,
    Path(run): Path<ProvisioningRunId>,
) -> Result<impl IntoResponse, Problem> {
    let run = need(&api, &caller, run).await?;
    receipt(&api, &run, run.plan_receipt.as_ref(), "plan").await
}

/// The receipt of the apply.
pub(crate) async fn apply_receipt(
    State(api): State<Shared>,
    caller: Caller,
    Path(run): Path<ProvisioningRunId>,
) -> Result<impl IntoResponse, Problem> {
    let run = need(&api, &caller, run).await?;
    receipt(&api, &run, run.apply_receipt.as_ref(), "apply").await
}

/// The log of the run's last step.
pub(crate) async fn logs(
    State(api): State<Shared>,
    caller: Caller,
    Path(run): Path<ProvisioningRunId>,
) -> Result<impl IntoResponse, Problem> {
    let run = need(&api, &caller, run).await?;
    let none = || {
        let id = run.provisioning_run_id;
        let detail = match run.completed_at {
            None => format!("run {id} has no log yet; wait for its plan"),
            Some(_) => format!("run {id} ended without a log ({}: {})", run.state, run.detail),
        };
        Problem::new(404, "no-log", detail)
    };
    let digest = run.logs_ref.as_deref().and_then(Digest::parse).ok_or_else(none)?;
    let bytes = api.artifacts.get(&digest).await?.ok_or_else(none)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], bytes))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Decide {
    decision: Decision,
    plan_digest: String,
    reason: Option<String>,
}

/// Approves or rejects the plan that was read.
pub(crate) async fn decide(
    State(api): State<Shared>,
    caller: Caller,
    Path(run): Path<ProvisioningRunId>,
    extract::Json(body): extract::Json<Decide>,
) -> Result<Json<Value>, Problem> {
    need(&api, &caller, run).await?;
    if body.decision == Decision::Expired {
        return Err(Problem::new(400, "invalid-decision", "decision must be approved or rejected"));
    }
    let event = ApprovalDecided {
        approval_id: ApprovalId(api.ids.fresh()),
        tenant_id: caller.tenant,
        provisioning_run_id: run,
        plan_digest: body.plan_digest,
        decision: body.decision,
        decided_by: caller.principal,
        decided_at: api.clock.now(),
        expires_at: None,
        reason: body.reason,
    };
    let (store, event) = (&api.store, &event);
    let state = api.settled(|cx| async move { apply_approval::decide(store, event, &cx).await }).await?;
    Ok(Json(json!({ "provisioningRunId": run, "state": state })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    reason: String,
}

/// Cancels.
pub(crate) async fn cancel(
    State(api): State<Shared>,
    caller: Caller,
    Path(run): Path<ProvisioningRunId>,
    extract::Json(body): extract::Json<Reason>,
) -> Result<Json<Value>, Problem> {
    need(&api, &caller, run).await?;
    let (caller, reason) = (&caller, &body.reason);
    let cancel = |cx| {
        let api = &api;
        async move {
            let (tenant, by) = (caller.tenant.clone(), caller.principal.clone());
            api.cancel.run(tenant, run, by, reason.clone(), &cx).await
        }
    };
    let state = api.settled(cancel).await?;
    Ok(Json(json!({ "provisioningRunId": run, "state": state })))
}

/// Ends a silent run that nothing proves dead.
pub(crate) async fn break_run(
    State(api): State<Shared>,
    caller: Caller,
    Path(run): Path<ProvisioningRunId>,
    extract::Json(body): extract::Json<Reason>,
) -> Result<Json<Value>, Problem> {
    need(&api, &caller, run).await?;
    let (caller, reason) = (&caller, &body.reason);
    let broken = |cx| {
        let api = &api;
        async move {
            let (tenant, by) = (caller.tenant.clone(), caller.principal.clone());
            api.recover.break_run(tenant, run, by, reason.clone(), &cx).await
        }
    };
    api.settled(broken).await?;
    Ok(Json(json!({ "provisioningRunId": run, "broken": true })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resolve {
    repository: String,
    #[serde(rename = "ref")]
    reference: String,
}

/// The commit that a branch or a tag names now.
pub(crate) async fn resolve(
    State(api): State<Shared>,
    caller: Caller,
    extract::Json(body): extract::Json<Resolve>,
) -> Result<Json<Value>, Problem> {
    let commit = api.programs.resolve(&caller.tenant, &body.repository, &body.reference).await?;
    Ok(Json(json!({ "commit": commit })))
}
