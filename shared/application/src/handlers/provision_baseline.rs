//! A new environment: its class and targets are recorded, runs that waited for it go on, and its baseline is
//! planned.

use std::sync::Arc;

use domain::aggregate::Scoped;
use domain::deployment_specification::Declaration;
use domain::environment::EnvironmentCommand;
use domain::provisioning_run::{RunSource, run_id};
use domain::{Environment, EnvironmentSlot};
use events::{BaselineProgram, Envelope, EnvironmentCreated, Principal, SpecificationKind, TargetKind};
use ports::{Commit, Cx, Store};

use crate::catalog::{PROVISION_BASELINE, Row};
use crate::declare::{Declared, Wanted, declare};
use crate::settings::Settings;
use crate::turns;
use crate::work::{Fault, Worker, or_again};

/// The handler.
pub struct ProvisionBaseline {
    /// The store.
    pub store: Store,
    /// Settings.
    pub settings: Arc<Settings>,
}

impl Worker for ProvisionBaseline {
    const ROW: &'static Row = &PROVISION_BASELINE;
    type Input = Envelope;
    /// None where the environment has no baseline.
    type Report = Option<Declared>;

    fn key(input: &Envelope) -> String {
        input.data.get("environmentId").and_then(|v| v.as_str()).unwrap_or(&input.id).to_owned()
    }
    fn group(input: &Envelope) -> String {
        super::group::environment_group(input)
    }

    async fn run(&self, input: Envelope, cx: &Cx) -> Result<Option<Declared>, Fault> {
        // load
        let event: EnvironmentCreated = input.read().map_err(|e| Fault::Never(Box::new(e)))?;
        let stored = self.store.load::<Environment>(&event.environment_id).await?;
        let slot = Scoped::new(event.tenant_id.clone(), event.environment_id.clone());
        let slot = self.store.load::<EnvironmentSlot>(&slot).await?;
        // decide
        let change = match &stored {
            None => Environment::create(&event, input.time, cx.now),
            Some(stored) => {
                let again = EnvironmentCommand::Describe(Box::new(event.clone()), input.time);
                stored.decide(again, cx.now).map_err(Fault::refused)?
            }
        };
        // commit: whoever waited for the class goes on
        let head = slot.as_ref().and_then(|s| s.head());
        let waiting = head
            .map(|h| turns::wake(&event.tenant_id, &event.environment_id, h.run, h.approved))
            .transpose()?;
        or_again(self.store.commit(Commit::of(change, cx).queue_maybe(waiting)).await?)?;

        let local = event.targets.iter().any(|t| t.kind == TargetKind::Local);
        let own = self.settings.baseline.clone().filter(|_| local).map(|program| BaselineProgram {
            program,
            config_refs: vec![],
            secret_refs: vec![],
        });
        let Some(baseline) = event.baseline_program.or(own) else { return Ok(None) };
        let run = run_id(&event.tenant_id, "baseline", event.environment_id.as_str(), 1);
        let declaration = Declaration {
            tenant: event.tenant_id,
            project: event.project_id,
            environment: event.environment_id,
            kind: SpecificationKind::EnvironmentBaseline,
            program: baseline.program,
            release: None,
            strategy: None,
            config_refs: baseline.config_refs,
            secret_refs: baseline.secret_refs,
        };
        let requested_by = Principal::new("EnvironmentService").map_err(|e| Fault::Never(Box::new(e)))?;
        let wanted = Wanted { declaration, run, source: RunSource::Baseline, requested_by, rerun_of: None };
        declare(&self.store, &self.settings, wanted, cx).await.map(Some)
    }
}
