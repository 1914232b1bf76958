//! Where Pulumi runs: start, then finished. On a host a supervised process, elsewhere a function or a task.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use domain::plan::PlanStep;
use domain::provisioning_run::Failure;
use domain::receipt::{AppliedResource, FailedResource, RefreshCheck};
use domain::{Digest, ProvisioningRun};
use events::{EnvironmentId, Program, ProvisioningRunId, TenantId};
use serde_json::Value;

use crate::error::PortError;
use crate::secret::Secret;

/// Which half of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The plan.
    Plan,
    /// The apply.
    Apply,
}

impl Phase {
    /// For names of folders.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Plan => "plan",
            Phase::Apply => "apply",
        }
    }
}

/// What both halves need.
#[derive(Debug, Clone)]
pub struct Job {
    /// The run.
    pub run: ProvisioningRunId,
    /// Which start of it: a plan may be started again, an apply never.
    pub attempt: u32,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// The program.
    pub program: Program,
    /// Plain configuration, by full key.
    pub config: BTreeMap<String, String>,
    /// Secret configuration, by full key.
    pub secrets: BTreeMap<String, Secret>,
    /// The same by reference and version: what is written down of them.
    pub secret_versions: Vec<domain::plan::ResolvedRef>,
    /// Digest of everything that the plan rests on, by reference and version: a start that was begun with other inputs
    /// is none of this job's (Rule 13).
    pub inputs: Digest,
    /// The identity that the environment names.
    pub identity: Option<String>,
    /// What that identity gives the run: known where the run works, and nowhere else.
    pub access: Access,
    /// Encrypts the state.
    pub passphrase: Secret,
    /// The state to work on a copy of; None for a new stack.
    pub state: Option<Vec<u8>>,
    /// When it has to have ended.
    pub deadline: DateTime<Utc>,
}

/// What an identity gives a run: variables of its environment. Each lives in that environment alone.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Variables whose values are secret.
    pub variables: BTreeMap<String, Secret>,
    /// Variables that name a file in memory with that content.
    pub files: BTreeMap<String, Secret>,
}

/// An apply needs what was planned, byte for byte.
#[derive(Debug, Clone)]
pub struct ApplyJob {
    /// What both need.
    pub job: Job,
    /// The plan file.
    pub plan_file: Vec<u8>,
    /// The stack's configuration as it was planned with.
    pub stack_config: Vec<u8>,
    /// Types of the resources that it changes.
    pub changing: Vec<String>,
    /// When it was claimed.
    pub since: DateTime<Utc>,
    /// Secrets that it was planned with and that nobody has any more, by reference: what they stand in can't be masked.
    pub lost_secrets: Vec<String>,
    /// May it be started if it never was? Only who has just put the intent says yes.
    pub may_start: bool,
}

/// How far a job is.
#[derive(Debug, Clone)]
pub enum Progress<T> {
    /// It was started, or goes on; a message comes when it has ended.
    Running,
    /// It ended.
    Finished(T),
    /// It is proven dead without an end, or was never started (Rule 20).
    Dead {
        /// The proof.
        proof: String,
    },
    /// It is silent, and nothing proves its death: it stays locked until a person breaks it.
    Unknown {
        /// Why it can't be told.
        why: String,
    },
}

/// How a plan ended.
#[derive(Debug, Clone)]
pub struct PlanOutcome {
    /// The plan, or why there is none.
    pub result: Result<PlannedChanges, Failure>,
    /// What was printed, redacted.
    pub log: Vec<u8>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// A plan.
#[derive(Debug, Clone)]
pub struct PlannedChanges {
    /// The plan file, as Pulumi wrote it.
    pub plan_file: Vec<u8>,
    /// The stack's configuration, secrets encrypted.
    pub stack_config: Vec<u8>,
    /// Every step, sorted by URN.
    pub steps: Vec<PlanStep>,
    /// SHA-256 of the steps with old and new values.
    pub steps_digest: Digest,
    /// Resources that stay as they are.
    pub unchanged: u32,
    /// Where the world differs from the state that the plan rests on; None for a new stack.
    pub refresh: Option<RefreshCheck>,
}

/// How an apply ended.
#[derive(Debug, Clone)]
pub struct ApplyOutcome {
    /// None where all of the plan was applied.
    pub failure: Option<Failure>,
    /// What failed.
    pub failing: Vec<FailedResource>,
    /// Outputs; secret ones masked.
    pub outputs: Value,
    /// What the engine did, by operation.
    pub changes: BTreeMap<String, u64>,
    /// Every resource in the state.
    pub resources: Vec<AppliedResource>,
    /// The state after; None where it didn't move.
    pub state: Option<Vec<u8>>,
    /// The state holds operations that never ended.
    pub pending_operations: bool,
    /// What was printed, redacted.
    pub log: Vec<u8>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// A run whose dead copy of the state changed after its end, with what was seen.
pub type Zombie = (TenantId, EnvironmentId, ProvisioningRunId, String);

/// What can be done to runs without starting or collecting any.
#[async_trait]
pub trait RunStopper: Send + Sync {
    /// Asks a half of a run to stop: gracefully once, then for good.
    async fn stop(&self, run: &ProvisioningRun, phase: Phase) -> Result<(), PortError>;
    /// Runs whose dead copy of the state changed after their end.
    async fn zombies(&self) -> Result<Vec<Zombie>, PortError>;
}

/// Starts, adopts, collects.
#[async_trait]
pub trait Runner: RunStopper {
    /// Starts a plan, or goes on with it. May wait for its end, or return Running.
    async fn plan(&self, job: &Job) -> Result<Progress<PlanOutcome>, PortError>;
    /// Starts an apply once, or goes on with it. May wait for its end, or return Running.
    async fn apply(&self, job: &ApplyJob) -> Result<Progress<ApplyOutcome>, PortError>;
    /// The longest that an apply which changes resources of these types may take where it would run; None: as long
    /// as the settings allow.
    fn longest_apply(&self, changing: &[String]) -> Option<TimeDelta>;
    /// Whether a half of a run lives; starts nothing. Finished carries nothing here.
    async fn look(&self, run: &ProvisioningRun, phase: Phase) -> Result<Progress<()>, PortError>;
    /// A half of a run is recorded: what it left on disk may go, but for what tells a zombie.
    async fn clean(&self, run: ProvisioningRunId, phase: Phase) -> Result<(), PortError>;
    /// Name and SHA-256 of each tool: an input of every plan.
    async fn tools(&self) -> Result<BTreeMap<String, String>, PortError>;
    /// For receipts.
    fn version(&self) -> String;
}
