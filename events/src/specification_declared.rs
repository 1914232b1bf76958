//! SpecificationDeclared: A desired-state version exists for an environment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::*;

/// A desired-state version exists for an environment. Topic `provisioning.specifications.v1.specification-declared`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpecificationDeclared {
    /// The specification.
    pub specification_id: SpecificationId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its environment.
    pub environment_id: EnvironmentId,
    /// What it describes.
    pub kind: SpecificationKind,
    /// 1 for the first version.
    pub version: u32,
    /// Commit of the program.
    pub program_version: CommitHash,
}
