//! Receipts: what a plan or an apply was made from and what came of it. Blobs named by their digest, immutable;
//! their order is a chain per environment whose links are decided in the commit on the slot (Rule 26).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use events::{
    EnvironmentId, PlanSummary, ProjectId, ProvisioningKind, ProvisioningRunId, SpecificationId, TenantId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::plan::{BoundInputs, PlanStep};
use crate::routing::Verdict;

/// What a receipt is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiptKind {
    /// A plan.
    Plan,
    /// An apply.
    Apply,
}

/// One link of an environment's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainLink {
    /// The store's epoch: each recovery from a backup begins a new one, so that no link is written twice.
    pub epoch: u32,
    /// 1 for the first of the environment.
    pub sequence: u64,
    /// Digest of the link before; None for the first.
    pub previous: Option<Digest>,
    /// The run that the receipt is of.
    pub run: ProvisioningRunId,
    /// What it is of.
    pub kind: ReceiptKind,
    /// Digest of the receipt.
    pub receipt: Digest,
}

impl ChainLink {
    /// The link's own digest: what the next one names.
    pub fn digest(&self) -> Digest {
        let previous = self.previous.as_ref().map_or("-", Digest::as_str);
        let kind = match self.kind {
            ReceiptKind::Plan => "plan",
            ReceiptKind::Apply => "apply",
        };
        Digest::of(
            format!("{}\n{}\n{previous}\n{}\n{kind}\n{}", self.epoch, self.sequence, self.run, self.receipt)
                .as_bytes(),
        )
    }
}

/// Whose a receipt is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptOwner {
    /// The run.
    pub provisioning_run_id: ProvisioningRunId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// Its specification.
    pub specification_id: SpecificationId,
    /// The version that it acted on.
    pub specification_version: u32,
    /// Why it exists.
    pub kind: ProvisioningKind,
}

/// The receipt of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReceipt {
    /// Whose it is.
    #[serde(flatten)]
    pub owner: ReceiptOwner,
    /// Counts, and what an approval binds.
    pub summary: PlanSummary,
    /// Every step, sorted by URN.
    pub steps: Vec<PlanStep>,
    /// SHA-256 of the steps with old and new values: compares two plans.
    pub steps_digest: Digest,
    /// What the plan was made from.
    pub inputs: BoundInputs,
    /// Hash of the inputs.
    pub inputs_hash: Digest,
    /// The state that it was made against; None for a first plan.
    pub state_head: Option<Digest>,
    /// The plan file, among the artifacts.
    pub plan_file: Digest,
    /// The log, among the artifacts.
    pub logs_ref: Option<Digest>,
    /// Per target: whether the plan could be checked against it.
    pub targets: BTreeMap<String, TargetCheck>,
    /// Where the world differs from the state that the plan rests on; None for a first plan.
    #[serde(default)]
    pub refresh: Option<RefreshCheck>,
    /// What the policy answered, and which policies decided.
    pub verdict: Verdict,
    /// The route that followed.
    pub route: String,
    /// When the planner began.
    pub started_at: DateTime<Utc>,
    /// How long it took.
    pub duration_ms: u64,
}

/// What a look at the resources of the state found, while planning. It changes nothing: the plan rests on the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum RefreshCheck {
    /// All were looked at.
    Looked {
        /// How many.
        looked_at: u32,
        /// Those that aren't as the state says, sorted by URN.
        differing: Vec<RefreshedResource>,
    },
    /// It could not be told.
    Unknown {
        /// Why.
        why: String,
    },
}

/// A resource that isn't as the state says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefreshedResource {
    /// Its URN.
    pub urn: String,
    /// It isn't there any more.
    pub gone: bool,
    /// The properties that differ, by path; never their values.
    pub changed: Vec<String>,
}

/// Whether a target could be asked while planning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetCheck {
    /// It answered.
    pub reachable: bool,
    /// What it said, or why it can't be asked.
    pub detail: String,
}

/// How an apply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApplyResult {
    /// All of the plan.
    Succeeded,
    /// Not all of it.
    Failed,
    /// Nothing of it: refused before Pulumi started.
    NotStarted,
}

/// One resource after an apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedResource {
    /// Its URN.
    pub urn: String,
    /// Its type.
    pub resource_type: String,
    /// Its id at its provider.
    pub id: Option<String>,
    /// Its declared inputs; secrets masked.
    pub inputs: Value,
}

/// The resource on which an apply failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedResource {
    /// Its URN; None where the program or the engine failed.
    pub urn: Option<String>,
    /// What it said; secrets masked.
    pub message: String,
}

/// The receipt of an apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyReceipt {
    /// Whose it is.
    #[serde(flatten)]
    pub owner: ReceiptOwner,
    /// The receipt of the plan that was applied.
    pub plan_receipt: Digest,
    /// How it ended.
    pub result: ApplyResult,
    /// Why it failed, by code.
    pub reason: Option<String>,
    /// Why it failed, in a sentence.
    pub message: Option<String>,
    /// Outputs; secret ones masked.
    pub outputs: Value,
    /// What failed.
    pub failing: Vec<FailedResource>,
    /// What the engine did, by operation.
    pub changes: BTreeMap<String, u64>,
    /// Every resource in the state.
    pub resources: Vec<AppliedResource>,
    /// The state after; None where it didn't move.
    pub state: Option<Digest>,
    /// What let it through: the approval or the policies.
    pub authority: Value,
    /// The token under which it ran.
    pub token: String,
    /// The log, among the artifacts.
    pub logs_ref: Option<Digest>,
    /// Version of the runner.
    pub runner_version: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub completed_at: DateTime<Utc>,
    /// How long it took.
    pub duration_ms: u64,
}

/// The one record that says how an apply ended (Rule 15): written once, by the finisher or by RunWatch; the store
/// follows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeRecord {
    /// Whether all of the plan was applied.
    pub applied: bool,
    /// Why not.
    pub failure: Option<crate::provisioning_run::Failure>,
    /// Digest of the apply receipt.
    pub receipt: Digest,
    /// The state after; None where it didn't move.
    pub state: Option<Digest>,
    /// Whether the state holds operations that never ended (Rule 22).
    pub pending_operations: bool,
    /// The log.
    pub logs_ref: Option<Digest>,
    /// When it ended.
    pub completed_at: DateTime<Utc>,
}
