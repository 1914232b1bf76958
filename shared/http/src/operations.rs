//! What keeps a place in order.

use ::events::is_unshowable;
use application::queries::Check;
use axum::Json;
use axum::extract::State;
use ports::queue::{DeadLetter, dead_of};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::Shared;
use crate::extract::{self, Path, Query};
use crate::identity::Caller;
use crate::problem::Problem;

/// It is there.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Who the caller is, as their token says.
pub(crate) async fn caller(caller: Caller) -> Json<Caller> {
    Json(caller)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(rename = "ref")]
    reference: String,
    value: String,
}

/// Sets a configuration value.
pub(crate) async fn set_config(
    State(api): State<Shared>,
    caller: Caller,
    extract::Json(body): extract::Json<Config>,
) -> Result<Json<Value>, Problem> {
    if body.reference.trim().is_empty() || is_unshowable(&body.reference) {
        let detail = format!("ref {:?} must have a character, and no control characters", body.reference);
        return Err(Problem::new(400, "invalid-reference", detail));
    }
    let version = api.operations.set_config(&caller.tenant, &body.reference, &body.value).await?;
    Ok(Json(json!({ "ref": body.reference, "version": version })))
}

/// How many dead letters are listed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    limit: Option<usize>,
}

/// The most that is listed, and the most bytes of their bodies: each may have 250 KB.
const LISTED: usize = 100;
const LISTED_BYTES: usize = 2_000_000;

/// Messages of the tenant that nobody could handle, the oldest first.
pub(crate) async fn dead_letters(
    State(api): State<Shared>,
    caller: Caller,
    Query(listed): Query<Listed>,
) -> Result<Json<Vec<DeadLetter>>, Problem> {
    let mut letters = dead_of(&*api.queue, &caller.tenant).await?;
    letters.truncate(listed.limit.unwrap_or(LISTED).clamp(1, LISTED));
    let mut bytes = 0;
    letters.retain(|letter| {
        bytes += letter.body.len();
        bytes <= LISTED_BYTES
    });
    Ok(Json(letters))
}

/// Sends one of them again.
pub(crate) async fn redrive(
    State(api): State<Shared>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Value>, Problem> {
    let known = dead_of(&*api.queue, &caller.tenant).await?.iter().any(|l| l.id == id);
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
