//! What a work folder says of itself.

use domain::Digest;
use events::{EnvironmentId, ProvisioningRunId, TenantId};
use serde::{Deserialize, Serialize};

/// In a work folder: what it was made for. It is there before its session can be.
pub(crate) const ABOUT: &str = "about.json";

/// Why a plan that has ended is none.
pub(crate) const MOVED: &str = "what it rests on moved while it was made";

/// What a workspace says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct About {
    pub run: ProvisioningRunId,
    pub tenant: TenantId,
    pub environment: EnvironmentId,
    pub project: String,
    pub stack: String,
    /// What it was begun with.
    #[serde(default)]
    pub inputs: Option<Digest>,
    /// The state when the run ended; None while it lives.
    pub ended: Option<Digest>,
}
