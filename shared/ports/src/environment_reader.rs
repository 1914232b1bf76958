//! Asks a target whether it is there.

use async_trait::async_trait;
use domain::receipt::TargetCheck;
use events::Target;

use crate::error::PortError;

/// Reads environments.
#[async_trait]
pub trait EnvironmentReader: Send + Sync {
    /// Whether a target answers: a plan made without its answer is not checked against it, and the receipt says so.
    async fn reach(&self, target: &Target) -> Result<TargetCheck, PortError>;
}
