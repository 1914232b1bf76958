//! Environments.

use ::events::EnvironmentId;
use application::queries::{ChainReport, verify_receipts};
use axum::Json;
use axum::extract::State;
use domain::aggregate::Scoped;
use domain::{Environment, EnvironmentSlot};
use ports::rows::By;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Shared;
use crate::extract::{self, Path};
use crate::identity::Caller;
use crate::problem::Problem;

/// The tenant's environments, each with what runs and waits in it.
pub(crate) async fn list(State(api): State<Shared>, caller: Caller) -> Result<Json<Vec<Value>>, Problem> {
    let environments = api.store.find_all::<Environment>(By::Tenant(&caller.tenant)).await?;
    let slots = api.store.find_all::<EnvironmentSlot>(By::Tenant(&caller.tenant)).await?;
    let view = |e: &Environment| {
        let slot = slots.iter().find(|s| s.environment == e.id);
        json!({
            "environmentId": e.id, "projectId": e.project, "class": e.class, "region": e.region,
            "targets": e.targets, "identityRef": e.identity_ref,
            "activeRun": slot.and_then(|s| s.active.as_ref()).map(|a| a.run),
            "waiting": slot.map_or(0, |s| s.queue.len()),
            "closed": slot.and_then(|s| s.tainted.as_ref()).map(|t| &t.reason),
        })
    };
    Ok(Json(environments.iter().map(view).collect()))
}

/// An environment in which something ran.
async fn need(api: &Shared, caller: &Caller, environment: &EnvironmentId) -> Result<(), Problem> {
    let slot = Scoped::new(caller.tenant.clone(), environment.clone());
    if api.store.load::<EnvironmentSlot>(&slot).await?.is_some() {
        return Ok(());
    }
    let detail = format!(
        "environment {environment} is unknown, or nothing ever ran in it; see `runtime-cloud environments list`"
    );
    Err(Problem::new(404, "not-found", detail))
}

/// Verifies the chain of receipts.
pub(crate) async fn verify(
    State(api): State<Shared>,
    caller: Caller,
    Path(environment): Path<EnvironmentId>,
) -> Result<Json<ChainReport>, Problem> {
    need(&api, &caller, &environment).await?;
    Ok(Json(verify_receipts(&api.store, &*api.receipts, &caller.tenant, &environment).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clear {
    #[serde(default)]
    settle: bool,
}

/// Reopens a closed environment.
pub(crate) async fn clear(
    State(api): State<Shared>,
    caller: Caller,
    Path(environment): Path<EnvironmentId>,
    extract::Json(body): extract::Json<Clear>,
) -> Result<Json<Value>, Problem> {
    need(&api, &caller, &environment).await?;
    api.recover.clear(caller.tenant, environment, body.settle, &api.cx()).await?;
    Ok(Json(json!({ "cleared": true })))
}
