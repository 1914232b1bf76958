//! PromotionApproved: A promotion hands over its desired state and its approval.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// A promotion hands over its desired state and its approval. Topic `delivery.promotions.v1.promotion-approved`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionApproved {
    /// The promotion; its repetition is the same run.
    pub promotion_id: PromotionId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its project.
    pub project_id: ProjectId,
    /// Where to.
    pub environment_id: EnvironmentId,
    /// What is released.
    pub release_id: ReleaseId,
    /// Who agreed; covers an apply in production.
    pub approval: PromotionApproval,
    /// The program at a full commit.
    pub program: Program,
    /// How to roll out; passed to the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Configuration by reference.
    pub config_refs: Vec<ConfigRef>,
    /// Secrets by reference.
    pub secret_refs: Vec<SecretRef>,
}

/// The approval of a promotion. It covers {environment, class, release, full commit} and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionApproval {
    /// The approval.
    pub approval_id: ApprovalId,
    /// Who agreed.
    pub decided_by: Principal,
    /// When.
    pub decided_at: DateTime<Utc>,
    /// Until when it may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
}
