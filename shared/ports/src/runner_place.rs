//! Where jobs run that don't run on this machine: whoever is started there takes the job's files, and leaves its own.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use events::{EnvironmentId, ProvisioningRunId, TenantId};
use serde::{Deserialize, Serialize};

use crate::error::PortError;
use crate::runner::Phase;

/// Names one start of a half of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobName {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// The run.
    pub run: ProvisioningRunId,
    /// Which half.
    pub phase: Phase,
    /// Which start of it; an apply has one alone.
    pub start: u32,
}

impl JobName {
    /// The folder of its files: `jobs/TENANT/ENVIRONMENT/RUN/plan-1`.
    pub fn folder(&self) -> String {
        let encode = domain::aggregate::encode;
        let (tenant, environment) = (encode(self.tenant.as_str()), encode(self.environment.as_str()));
        format!("jobs/{tenant}/{environment}/{}/{}-{}", self.run, self.phase.as_str(), self.start)
    }
}

/// What a place has to know to start somebody: which job, and what that job may reach.
#[derive(Debug, Clone)]
pub struct Order {
    /// The job.
    pub name: JobName,
    /// References of the secrets that it reads.
    pub secrets: Vec<String>,
    /// The identity that its environment names.
    pub identity: Option<String>,
    /// When it has to have ended.
    pub deadline: DateTime<Utc>,
    /// How often somebody was asked for it before and nobody has come: each time asks for somebody else.
    pub asked: u32,
}

/// Says who works on a job; put once, by whoever does, before anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobClaim {
    /// Who: a name that its place knows. None: somebody made sure that nobody ever does.
    pub worker: Option<String>,
    /// Since when.
    pub at: DateTime<Utc>,
    /// When its place has ended it and the last of its credentials is over, whatever it does.
    pub ends_by: DateTime<Utc>,
}

/// Clocks of two machines differ by less.
pub const SKEW: TimeDelta = TimeDelta::seconds(30);

/// A place.
#[async_trait]
pub trait RunnerPlace: Send + Sync {
    /// How long a job may take there.
    fn longest(&self) -> TimeDelta;
    /// Starts somebody on a job. Twice is harmless: one of them claims it, the other leaves at once.
    async fn start(&self, order: &Order) -> Result<(), PortError>;
    /// The proof that whoever claimed a job can't do anything any more; None while it may.
    async fn gone(&self, claim: &JobClaim, now: DateTime<Utc>) -> Result<Option<String>, PortError>;
}
