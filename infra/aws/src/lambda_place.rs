//! Jobs on a runner function: invoked with credentials made for that one job, in a sandbox of its tenant alone.

use async_trait::async_trait;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use chrono::{DateTime, TimeDelta, Utc};
use ports::PortError;
use ports::runner_place::{JobClaim, JobName, Order, RunnerPlace, SKEW};
use serde::{Deserialize, Serialize};

use crate::fault::fault;
use crate::job_role::{JobKeys, JobRole};
use crate::names::safe_name;

/// The place.
#[derive(Clone)]
pub struct LambdaPlace {
    /// Lambda.
    pub lambda: aws_sdk_lambda::Client,
    /// The runner function.
    pub function: String,
    /// Whether the function keeps a sandbox for each tenant: then it has to be told whose the job is.
    pub by_tenant: bool,
    /// Credentials.
    pub role: JobRole,
}

/// What the runner function is invoked with. It is never logged.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobInvocation {
    /// The job.
    pub name: JobName,
    /// What it may use.
    pub keys: JobKeys,
}

/// A function ends after 14 minutes; a minute of it is for what comes before Pulumi and after it.
const LONGEST: TimeDelta = TimeDelta::minutes(13);

#[async_trait]
impl RunnerPlace for LambdaPlace {
    fn longest(&self) -> TimeDelta {
        LONGEST
    }

    async fn start(&self, order: &Order) -> Result<(), PortError> {
        let invocation = JobInvocation { name: order.name.clone(), keys: self.role.keys(order).await? };
        let payload = serde_json::to_vec(&invocation)
            .map_err(|e| PortError::broken_by("an invocation can't be written", "report this", e))?;
        let sent = self
            .lambda
            .invoke()
            .function_name(&self.function)
            .invocation_type(InvocationType::Event)
            .set_tenant_id(self.by_tenant.then(|| safe_name(order.name.tenant.as_str())))
            .payload(Blob::new(payload))
            .send()
            .await;
        // The payload stays out of every error.
        sent.map_err(|e| fault(&format!("function {}", self.function), e))?;
        Ok(())
    }

    async fn gone(&self, claim: &JobClaim, now: DateTime<Utc>) -> Result<Option<String>, PortError> {
        let ended = now > claim.ends_by + SKEW;
        Ok(ended.then(|| format!("its function and its credentials ended at {}", claim.ends_by)))
    }
}
