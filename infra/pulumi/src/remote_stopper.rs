//! Runs elsewhere are stopped by a file; whoever only stops needs nothing else of them.

use std::sync::Arc;

use async_trait::async_trait;
use domain::ProvisioningRun;
use ports::runner::{Phase, Zombie};
use ports::runner_place::JobName;
use ports::{PortError, Receipts, RunStopper};

use crate::job_files::{JobFiles, ORDERED, STOP};
use crate::runner::PLAN_STARTS;

/// Stops runs elsewhere.
pub struct RemoteStopper {
    /// The jobs' files.
    pub files: Arc<dyn Receipts>,
}

/// How often a half of a run is started at most.
pub(crate) const fn starts(phase: Phase) -> u32 {
    match phase {
        Phase::Plan => PLAN_STARTS,
        Phase::Apply => 1,
    }
}

/// Names a start of a half of a run.
pub(crate) fn half(run: &ProvisioningRun, phase: Phase, start: u32) -> JobName {
    let (tenant, environment) = (run.tenant.clone(), run.environment.clone());
    JobName { tenant, environment, run: run.id, phase, start }
}

#[async_trait]
impl RunStopper for RemoteStopper {
    async fn stop(&self, run: &ProvisioningRun, phase: Phase) -> Result<(), PortError> {
        for start in 1..=starts(phase) {
            let files = JobFiles { files: &*self.files, folder: half(run, phase, start).folder() };
            if files.get(ORDERED).await?.is_some() {
                // Whoever works on it looks for this every few seconds.
                files.put(STOP, b"{}").await?;
            }
        }
        Ok(())
    }

    /// A dead copy of a state lies in a sandbox of its own that nobody reaches: nothing of it can be seen, or used.
    async fn zombies(&self) -> Result<Vec<Zombie>, PortError> {
        Ok(vec![])
    }
}
