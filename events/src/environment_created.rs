//! EnvironmentCreated: An environment exists, with its class and its targets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// An environment exists, with its class and its targets. Topic `control.environments.v1.environment-created`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentCreated {
    /// The environment.
    pub environment_id: EnvironmentId,
    /// Who owns it.
    pub tenant_id: TenantId,
    /// Its project.
    pub project_id: ProjectId,
    /// How strictly it is governed.
    pub class: EnvironmentClass,
    /// Where it is.
    pub region: String,
    /// Where its resources live.
    pub targets: Vec<Target>,
    /// The short-lived identity that runs use: a role or a kubeconfig reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<String>,
    /// What it starts with; the product's own baseline where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_program: Option<BaselineProgram>,
}

/// Where resources live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// A folder, a cluster or an account, by reference.
    pub reference: String,
}

/// The baseline of an environment, where it isn't the product's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaselineProgram {
    /// The program at a full commit.
    pub program: Program,
    /// Configuration by reference.
    #[serde(default)]
    pub config_refs: Vec<ConfigRef>,
    /// Secrets by reference.
    #[serde(default)]
    pub secret_refs: Vec<SecretRef>,
}
