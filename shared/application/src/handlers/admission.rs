//! What can be said of an event before it is taken in: its sender is told at once what the handler could only put
//! aside as a dead letter. The handlers check again, since things move meanwhile.

use chrono::{DateTime, Utc};
use domain::aggregate::Scoped;
use domain::deployment_specification::check;
use domain::environment::EnvironmentCommand;
use domain::provisioning_run::run_id;
use domain::{Environment, ProvisioningRun, decided_at};
use events::{EnvironmentCreated, Inbound, PromotionApproved, PromotionId, ProvisioningRunId};
use ports::Store;

use crate::work::Fault;

/// Refuses an event that could only become a dead letter.
pub async fn admit(store: &Store, event: &Inbound, now: DateTime<Utc>) -> Result<(), Fault> {
    match event {
        Inbound::PromotionApproved(event) => promotion(store, event, now).await,
        Inbound::EnvironmentCreated(event) => environment(store, event, now).await,
        Inbound::ApprovalDecided(event) => decided_at::check(event.decided_at, now).map_err(Fault::refused),
        Inbound::AttemptOutcomeRecorded(_) | Inbound::SandboxReleased(_) => Ok(()),
    }
}

/// Why a promotion is no repetition of the one that had its id.
#[derive(Debug, thiserror::Error)]
#[error(
    "promotion {promotion} is already run {run}, of another program or environment; give a new promotionId"
)]
pub struct OtherPromotion {
    promotion: PromotionId,
    run: ProvisioningRunId,
}

impl domain::Refusal for OtherPromotion {
    fn code(&self) -> &'static str {
        "promotion-conflict"
    }
}

async fn promotion(store: &Store, event: &PromotionApproved, now: DateTime<Utc>) -> Result<(), Fault> {
    decided_at::check(event.approval.decided_at, now).map_err(Fault::refused)?;
    if let Some(environment) = store.load::<Environment>(&event.environment_id).await? {
        environment.owned_by(&event.tenant_id).map_err(Fault::refused)?;
    }
    let promotion = event.promotion_id;
    let run = run_id(&event.tenant_id, "promotion", &promotion.to_string(), 1);
    if let Some(there) = store.load::<ProvisioningRun>(&Scoped::new(event.tenant_id.clone(), run)).await?
        && (there.environment != event.environment_id || there.program != event.program)
    {
        return Err(Fault::refused(OtherPromotion { promotion, run }));
    }
    check(&event.program, event.strategy.as_deref(), &event.config_refs, &event.secret_refs)
        .map_err(Fault::refused)
}

async fn environment(store: &Store, event: &EnvironmentCreated, now: DateTime<Utc>) -> Result<(), Fault> {
    if let Some(stored) = store.load::<Environment>(&event.environment_id).await? {
        stored
            .decide(EnvironmentCommand::Describe(Box::new(event.clone()), now), now)
            .map_err(Fault::refused)?;
    }
    match &event.baseline_program {
        Some(b) => check(&b.program, None, &b.config_refs, &b.secret_refs).map_err(Fault::refused),
        None => Ok(()),
    }
}
