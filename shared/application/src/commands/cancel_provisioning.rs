//! Planned and AwaitingApproval end at once; Applying asks Pulumi to stop gracefully once.

use std::sync::Arc;

use domain::aggregate::Scoped;
use domain::provisioning_run::{RunCommand, RunState};
use domain::{EnvironmentSlot, ProvisioningRun};
use events::{Principal, ProvisioningRunId, TenantId};
use ports::runner::Phase;
use ports::{Commit, Cx, Runner, Store};

use crate::turns;
use crate::work::{Fault, or_again};

/// The command.
pub struct CancelProvisioning {
    /// The store.
    pub store: Store,
    /// Where Pulumi runs.
    pub runner: Arc<dyn Runner>,
}

impl CancelProvisioning {
    /// Cancels; the run's state after.
    pub async fn run(
        &self,
        tenant: TenantId,
        run: ProvisioningRunId,
        by: Principal,
        reason: String,
        cx: &Cx,
    ) -> Result<&'static str, Fault> {
        // load
        let run = self.store.need::<ProvisioningRun>(&Scoped::new(tenant, run)).await?;
        let slot = Scoped::new(run.tenant.clone(), run.environment.clone());
        let slot = self.store.need::<EnvironmentSlot>(&slot).await?;
        // decide
        let change = run.decide(RunCommand::Cancel { by, reason }, cx.now).map_err(Fault::refused)?;
        let state = change.after().state.clone();
        // commit: the wish first, so that it survives a crash; RunWatch repeats the stop
        if state.is_final() {
            turns::leave(&self.store, change, &slot, cx).await?;
        } else {
            or_again(self.store.commit(Commit::of(change, cx)).await?)?;
        }
        if matches!(state, RunState::Applying { .. }) {
            self.runner.stop(&run, Phase::Apply).await?;
        } else if let Err(e) = self.runner.stop(&run, Phase::Plan).await {
            tracing::debug!(run = %run.id, error = %e.chain(), "nothing to stop");
        }
        Ok(state.state().as_str())
    }
}
