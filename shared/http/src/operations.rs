//! What keeps a host in order.

use axum::Json;
use axum::extract::{Path, State};
use ports::queue::DeadLetter;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::{Check, Shared};
use crate::identity::Caller;
use crate::problem::Problem;

/// It is there.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

#[derive(Deserialize)]
pub(crate) struct Config {
    #[serde(rename = "ref")]
    reference: String,
    value: String,
}

/// Sets a configuration value.
pub(crate) async fn set_config(
    State(api): State<Shared>,
    caller: Caller,
    Json(body): Json<Config>,
) -> Result<Json<Value>, Problem> {
    let version = api.operations.set_config(&caller.tenant, &body.reference, &body.value).await?;
    Ok(Json(json!({ "ref": body.reference, "version": version })))
}

fn is_of(letter: &DeadLetter, caller: &Caller) -> bool {
    let body: Value = serde_json::from_str(&letter.body).unwrap_or_default();
    let tenant = body.get("tenant").or_else(|| body.pointer("/data/tenantId")).and_then(Value::as_str);
    tenant == Some(caller.tenant.as_str())
}

/// Messages of the tenant that nobody could handle.
pub(crate) async fn dead_letters(
    State(api): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<DeadLetter>>, Problem> {
    let dead = api.queue.dead(1000).await?;
    Ok(Json(dead.into_iter().filter(|l| is_of(l, &caller)).collect()))
}

/// Sends one of them again.
pub(crate) async fn redrive(
    State(api): State<Shared>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Value>, Problem> {
    let known = api.queue.dead(1000).await?.into_iter().any(|l| l.id == id && is_of(&l, &caller));
    if !known || !api.queue.redrive(id).await? {
        return Err(Problem::not_found(format!("dead letter {id}")));
    }
    Ok(Json(json!({ "redriven": id })))
}

/// Makes a backup now.
pub(crate) async fn backup(State(api): State<Shared>, _caller: Caller) -> Result<Json<Value>, Problem> {
    Ok(Json(json!({ "file": api.operations.backup().await? })))
}

/// Looks at everything.
pub(crate) async fn doctor(State(api): State<Shared>, caller: Caller) -> Result<Json<Vec<Check>>, Problem> {
    Ok(Json(api.operations.doctor(&caller.tenant).await))
}
