//! A promotion hands over its desired state; its approval is kept for the production apply.

use std::sync::Arc;

use domain::deployment_specification::Declaration;
use domain::provisioning_run::{RunSource, run_id};
use domain::{Environment, decided_at};
use events::{Envelope, PromotionApproved, SpecificationKind};
use ports::{Cx, Store};

use crate::catalog::{PROVISION_PROMOTION, Row};
use crate::declare::{Declared, Wanted, declare};
use crate::settings::Settings;
use crate::work::{Fault, Worker};

/// The handler.
pub struct ProvisionPromotion {
    /// The store.
    pub store: Store,
    /// Settings.
    pub settings: Arc<Settings>,
}

impl Worker for ProvisionPromotion {
    const ROW: &'static Row = &PROVISION_PROMOTION;
    type Input = Envelope;
    type Report = Declared;

    fn key(input: &Envelope) -> String {
        input.data.get("promotionId").and_then(|v| v.as_str()).unwrap_or(&input.id).to_owned()
    }
    fn group(input: &Envelope) -> String {
        super::group::environment_group(input)
    }

    async fn run(&self, input: Envelope, cx: &Cx) -> Result<Declared, Fault> {
        // load
        let event: PromotionApproved = input.read().map_err(|e| Fault::Never(Box::new(e)))?;
        decided_at::check(event.approval.decided_at, cx.now).map_err(|e| Fault::Never(Box::new(e)))?;
        // Without its EnvironmentCreated the class is unknown: the run is declared and waits for it.
        if let Some(environment) = self.store.load::<Environment>(&event.environment_id).await? {
            environment.owned_by(&event.tenant_id).map_err(Fault::refused)?;
        }
        // decide and commit
        let run = run_id(&event.tenant_id, "promotion", &event.promotion_id.to_string(), 1);
        tracing::info!(tenant = %event.tenant_id, environment = %event.environment_id, %run, "promotion taken in");
        let declaration = Declaration {
            tenant: event.tenant_id,
            project: event.project_id,
            environment: event.environment_id,
            kind: SpecificationKind::Workload,
            program: event.program,
            release: Some(event.release_id),
            strategy: event.strategy,
            config_refs: event.config_refs,
            secret_refs: event.secret_refs,
        };
        let wanted = Wanted {
            declaration,
            run,
            requested_by: event.approval.decided_by.clone(),
            source: RunSource::Promotion { promotion: event.promotion_id, approval: event.approval },
            rerun_of: None,
        };
        declare(&self.store, &self.settings, wanted, cx).await
    }
}
