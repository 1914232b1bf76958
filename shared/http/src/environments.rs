//! Environments.

use ::events::EnvironmentId;
use application::queries::{Chain, ChainReport};
use axum::Json;
use axum::extract::State;
use domain::aggregate::Scoped;
use domain::{Environment, EnvironmentSlot};
use ports::rows::By;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Shared;
use crate::extract::{self, Path, Query};
use crate::identity::Caller;
use crate::problem::Problem;

/// How many environments are listed at most.
const PAGE: u32 = 500;

/// Which environments are listed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Those behind this one, in the order of their ids.
    after: Option<EnvironmentId>,
    /// At most so many.
    limit: Option<u32>,
}

fn view(environment: &Environment, slot: Option<&EnvironmentSlot>) -> Value {
    json!({
        "environmentId": environment.id, "projectId": environment.project, "class": environment.class,
        "region": environment.region, "targets": environment.targets, "identityRef": environment.identity_ref,
        "activeRun": slot.and_then(|s| s.active.as_ref()).map(|a| a.run),
        "waiting": slot.map_or(0, |s| s.queue.len()),
        "closed": slot.and_then(|s| s.tainted.as_ref()).map(|t| &t.reason),
    })
}

/// The tenant's environments, each with what runs and waits in it: a page of them.
pub(crate) async fn list(
    State(api): State<Shared>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Result<Json<Vec<Value>>, Problem> {
    let limit = extract::limit(filter.limit, PAGE)?;
    let mut environments = api.store.find_all::<Environment>(By::Tenant(&caller.tenant)).await?;
    environments.sort_by(|a, b| a.id.cmp(&b.id));
    environments.retain(|e| filter.after.as_ref().is_none_or(|after| e.id > *after));
    environments.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let slots = api.store.find_all::<EnvironmentSlot>(By::Tenant(&caller.tenant)).await?;
    let slot = |e: &Environment| slots.iter().find(|s| s.environment == e.id);
    Ok(Json(environments.iter().map(|e| view(e, slot(e))).collect()))
}

/// One.
pub(crate) async fn show(
    State(api): State<Shared>,
    caller: Caller,
    Path(environment): Path<EnvironmentId>,
) -> Result<Json<Value>, Problem> {
    let found = api.store.load::<Environment>(&environment).await?;
    let found = found.filter(|e| e.tenant == caller.tenant);
    let found = found.ok_or_else(|| Problem::not_found(format!("environment {environment}")))?;
    let slot = Scoped::new(caller.tenant.clone(), environment);
    let slot = api.store.load::<EnvironmentSlot>(&slot).await?;
    Ok(Json(view(&found, slot.as_deref())))
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

/// How often a list that lags is looked at again, and how long between: then it is the chain that lacks something.
const LOOKS: u32 = 5;
const LAG: std::time::Duration = std::time::Duration::from_millis(400);

/// Verifies the chain of receipts.
pub(crate) async fn verify(
    State(api): State<Shared>,
    caller: Caller,
    Path(environment): Path<EnvironmentId>,
) -> Result<Json<ChainReport>, Problem> {
    need(&api, &caller, &environment).await?;
    let mut chain = Chain::load(&api.store, &caller.tenant, &environment).await?;
    for _ in 0..LOOKS {
        if !chain.lags() {
            break;
        }
        tokio::time::sleep(LAG).await;
        chain = Chain::load(&api.store, &caller.tenant, &environment).await?;
    }
    Ok(Json(chain.verify(&*api.receipts).await?))
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
    let (tenant, environment) = (&caller.tenant, &environment);
    let clear = |cx| {
        let api = &api;
        async move { api.recover.clear(tenant.clone(), environment.clone(), body.settle, &cx).await }
    };
    api.settled(clear).await?;
    Ok(Json(json!({ "cleared": true })))
}
