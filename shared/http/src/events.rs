//! Events in and out.

use ::events::{Envelope, Inbound};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use domain::routing::Answer;
use serde::Deserialize;

use crate::api::{LoggedEvent, Shared};
use crate::identity::Caller;
use crate::problem::Problem;

/// Takes an event in: it is on disk when this answers.
pub(crate) async fn publish(
    State(api): State<Shared>,
    caller: Caller,
    body: Bytes,
) -> Result<StatusCode, Problem> {
    let invalid = |e: ::events::EnvelopeError| Problem::new(400, "invalid-event", e.to_string());
    let envelope = Envelope::parse(&body).map_err(invalid)?;
    let inbound = Inbound::read(&envelope).map_err(invalid)?;
    if *inbound.tenant() != caller.tenant {
        return Err(Problem::new(
            403,
            "foreign-tenant",
            "data.tenantId is not your tenant; send events of your own",
        ));
    }
    let verdict = api.policy.may_publish(&caller.principal, &envelope.topic, &envelope.source).await?;
    if verdict.answer != Answer::Allow {
        let detail = format!(
            "{} may not publish {}; ask for a policy that permits it",
            caller.principal, envelope.topic
        );
        return Err(Problem::new(403, "forbidden", detail));
    }
    api.bus.publish(&Envelope { tenantid: Some(caller.tenant), ..envelope }).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Where to go on.
#[derive(Deserialize)]
pub(crate) struct After {
    #[serde(default)]
    after: i64,
    limit: Option<u32>,
}

/// What was on the bus.
pub(crate) async fn log(
    State(api): State<Shared>,
    caller: Caller,
    Query(page): Query<After>,
) -> Result<Json<Vec<LoggedEvent>>, Problem> {
    Ok(Json(api.log.log(page.after, &caller.tenant, page.limit.unwrap_or(100).min(1000)).await?))
}
