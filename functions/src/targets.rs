//! Targets that a function can ask.

use async_trait::async_trait;
use domain::receipt::TargetCheck;
use events::{Target, TargetKind};
use ports::{EnvironmentReader, PortError};

/// None yet: a plan says so.
pub struct Targets;

#[async_trait]
impl EnvironmentReader for Targets {
    async fn reach(&self, target: &Target) -> Result<TargetCheck, PortError> {
        let detail = match target.kind {
            TargetKind::Local => {
                "a function has no machine of its own: local targets are for hosts".to_owned()
            }
            TargetKind::Kubernetes | TargetKind::Aws => format!(
                "{} targets can't be asked from here: the plan was not checked against it",
                target.kind
            ),
        };
        Ok(TargetCheck { reachable: false, detail })
    }
}
