//! Events in and out.

use ::events::{Envelope, Inbound, is_service};
use application::handlers::admit;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::routing::Answer;
use serde::Deserialize;

use crate::api::{LoggedEvent, Shared};
use crate::extract::{Query, Raw};
use crate::identity::{Caller, Role};
use crate::problem::Problem;

/// Takes an event in: it is on disk when this answers.
pub(crate) async fn publish(
    State(api): State<Shared>,
    caller: Caller,
    Raw(body): Raw,
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
    may_send(&caller, &inbound)?;
    let verdict = api.policy.may_publish(&caller.principal, &envelope.topic, &envelope.source).await?;
    if verdict.answer != Answer::Allow {
        let detail = format!(
            "{} may not publish {}; ask for a policy that permits it",
            caller.principal, envelope.topic
        );
        return Err(Problem::new(403, "forbidden", detail));
    }
    own_decision(&caller, &inbound)?;
    admit(&api.store, &inbound, api.clock.now()).await?;
    api.bus.publish(&Envelope { tenantid: Some(caller.tenant), ..envelope }).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Services send events. So do people, as far as an event says what they may do by other means: a promotion plans and
/// carries its approval.
fn may_send(caller: &Caller, event: &Inbound) -> Result<(), Problem> {
    if caller.may(Role::Service) {
        return Ok(());
    }
    match event {
        Inbound::PromotionApproved(_) => {
            caller.need(Role::Operator)?;
            caller.need(Role::Approver)
        }
        Inbound::EnvironmentCreated(_) => caller.need(Role::Operator),
        Inbound::ApprovalDecided(_) | Inbound::AttemptOutcomeRecorded(_) | Inbound::SandboxReleased(_) => {
            caller.need(Role::Service)
        }
    }
}

/// Who a run's requester is follows from the event: a person who named another one could approve their own run.
fn own_decision(caller: &Caller, event: &Inbound) -> Result<(), Problem> {
    if is_service(&caller.principal) {
        return Ok(());
    }
    match event {
        Inbound::PromotionApproved(event) if event.approval.decided_by != caller.principal => {
            let detail = format!(
                "data.approval.decidedBy is {}, and you are {}; a person promotes in their own name alone",
                event.approval.decided_by, caller.principal
            );
            Err(Problem::new(403, "foreign-decision", detail))
        }
        Inbound::EnvironmentCreated(event) if event.baseline_program.is_some() => {
            let detail = "data.baselineProgram would run in the name of EnvironmentService, and you are a person; \
                          leave it out, and promote that program";
            Err(Problem::new(403, "foreign-decision", detail))
        }
        Inbound::EnvironmentCreated(event) if event.identity_ref.is_some() && !caller.may(Role::Admin) => {
            let detail = "data.identityRef says what programs of the environment work as: EnvironmentService sends it, or an \
                          admin; leave it out, or ask one of them";
            Err(Problem::new(403, "foreign-identity", detail))
        }
        Inbound::PromotionApproved(_)
        | Inbound::EnvironmentCreated(_)
        | Inbound::ApprovalDecided(_)
        | Inbound::AttemptOutcomeRecorded(_)
        | Inbound::SandboxReleased(_) => Ok(()),
    }
}

/// Where to go on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
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
