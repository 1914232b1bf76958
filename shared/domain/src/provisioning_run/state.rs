//! Where a run comes from, where it stands, and what it holds on to.

use chrono::{DateTime, Utc};
use events::{
    ApprovalId, PlanSummary, Principal, PromotionApproval, PromotionId, ProvisioningKind, ProvisioningState,
};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::plan::BoundInputs;
use crate::receipt::ChainLink;
use crate::routing::Authority;

/// Where a run comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RunSource {
    /// A promotion, with the approval that came with it.
    Promotion {
        /// The promotion.
        promotion: PromotionId,
        /// Its approval: covers {environment, class, release, full commit}.
        approval: PromotionApproval,
    },
    /// A new environment.
    Baseline,
    /// A person.
    Manual,
    /// Declared state is brought back.
    Reconciliation,
    /// A pool changes its size.
    PoolResize,
}

impl RunSource {
    /// The run's kind.
    pub const fn kind(&self) -> ProvisioningKind {
        match self {
            RunSource::Promotion { .. } => ProvisioningKind::Promotion,
            RunSource::Baseline => ProvisioningKind::Baseline,
            RunSource::Manual => ProvisioningKind::Manual,
            RunSource::Reconciliation => ProvisioningKind::Reconciliation,
            RunSource::PoolResize => ProvisioningKind::PoolResize,
        }
    }
}

/// Where a run stands. `PlanPending` and `PlanRecorded` are both the specification's Planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state")]
pub enum RunState {
    /// Declared and queued.
    PlanPending,
    /// Planned, on its way to the Applier.
    PlanRecorded {
        /// What lets the apply through.
        authority: Authority,
    },
    /// A person has to decide, or has decided and the Applier is on its way.
    AwaitingApproval {
        /// Why.
        reason: String,
        /// When waiting ends in Rejected.
        expires_at: DateTime<Utc>,
        /// The approval, once given.
        approval: Option<PlanApproval>,
    },
    /// Pulumi may be changing resources.
    Applying {
        /// Who may end it.
        token: Token,
        /// Since when.
        since: DateTime<Utc>,
        /// What let it through.
        authority: Authority,
        /// Somebody asked to stop.
        cancel: Option<CancelRequest>,
    },
    /// Ended.
    Applied,
    /// Ended.
    Failed(Failure),
    /// Ended.
    Rejected {
        /// Who rejected it; None where the approval expired.
        by: Option<Principal>,
        /// Why.
        reason: String,
    },
    /// Ended.
    Cancelled {
        /// Who cancelled it; None where a policy or a newer promotion did.
        by: Option<Principal>,
        /// Why.
        reason: String,
    },
}

impl RunState {
    /// The specification's name.
    pub const fn state(&self) -> ProvisioningState {
        match self {
            RunState::PlanPending | RunState::PlanRecorded { .. } => ProvisioningState::Planned,
            RunState::AwaitingApproval { .. } => ProvisioningState::AwaitingApproval,
            RunState::Applying { .. } => ProvisioningState::Applying,
            RunState::Applied => ProvisioningState::Applied,
            RunState::Failed(_) => ProvisioningState::Failed,
            RunState::Rejected { .. } => ProvisioningState::Rejected,
            RunState::Cancelled { .. } => ProvisioningState::Cancelled,
        }
    }
    /// Whether nothing more can happen to it.
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            RunState::Applied | RunState::Failed(_) | RunState::Rejected { .. } | RunState::Cancelled { .. }
        )
    }
}

/// Who may end an apply: the store's epoch (raised by each recovery) and a number that only grows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Token {
    /// Raised by each recovery from a backup (Rule 27).
    pub epoch: u32,
    /// The environment's apply sequence.
    pub sequence: u64,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.epoch, self.sequence)
    }
}

/// A person's wish to stop an apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// Who.
    pub by: Principal,
    /// Why.
    pub reason: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// An approval of one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanApproval {
    /// The approval.
    pub approval: ApprovalId,
    /// Who agreed.
    pub by: Principal,
    /// When.
    pub at: DateTime<Utc>,
    /// Until when it may be used.
    pub expires_at: Option<DateTime<Utc>>,
    /// The plan that was read.
    pub plan_digest: Digest,
}

/// Who approved, as it is told afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approved {
    /// The approval.
    pub approval_id: ApprovalId,
    /// Who agreed.
    pub decided_by: Principal,
    /// When.
    pub decided_at: DateTime<Utc>,
}

/// What let an apply through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// By which rule.
    #[serde(flatten)]
    pub authority: Authority,
    /// Who approved; None where a policy allowed it.
    #[serde(flatten)]
    pub approved: Option<Approved>,
}

/// What was planned: the receipt and what an apply must find unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The receipt's link in the environment's chain.
    pub link: ChainLink,
    /// Counts.
    pub summary: PlanSummary,
    /// SHA-256 of the plan file: binds.
    pub plan_digest: Digest,
    /// SHA-256 of the steps with values: compares.
    pub steps_digest: Digest,
    /// What it was made from.
    pub inputs: BoundInputs,
    /// Hash of the inputs.
    pub inputs_hash: Digest,
    /// The state that it was made against.
    pub state_head: Option<Digest>,
    /// The stack's configuration as it was planned with, secrets encrypted; among the artifacts.
    pub stack_config: Digest,
    /// When it was recorded.
    pub at: DateTime<Utc>,
}

/// What was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyRecord {
    /// The receipt's link in the environment's chain.
    pub link: ChainLink,
    /// The state after; None where it didn't move.
    pub state: Option<Digest>,
    /// Outputs as the receipt holds them; secret ones masked.
    pub outputs: serde_json::Value,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// By code.
    pub reason: FailureReason,
    /// In a sentence, with what to do next.
    pub message: String,
}

/// Why a run failed, by code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureReason {
    /// The program could not be planned.
    PlanFailed,
    /// Something that the plan rests on moved; nothing was touched.
    PlanStale,
    /// Pulumi reported a failure.
    ApplyFailed,
    /// It ran longer than allowed.
    TimedOut,
    /// It printed more than allowed.
    OutputLimit,
    /// Whoever ran it died.
    Interrupted,
    /// A person stopped it.
    Cancelled,
}

impl FailureReason {
    /// The code.
    pub const fn code(self) -> &'static str {
        match self {
            FailureReason::PlanFailed => "plan-failed",
            FailureReason::PlanStale => "plan-stale",
            FailureReason::ApplyFailed => "apply-failed",
            FailureReason::TimedOut => "timed-out",
            FailureReason::OutputLimit => "output-limit",
            FailureReason::Interrupted => "interrupted",
            FailureReason::Cancelled => "cancelled",
        }
    }
}
