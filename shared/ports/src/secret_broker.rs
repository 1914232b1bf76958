//! Secret values, by reference and version.

use async_trait::async_trait;
use events::{EnvironmentId, TenantId};

use crate::error::PortError;
use crate::secret::Secret;

/// A secret at a version.
#[derive(Debug, Clone)]
pub struct SecretValue {
    /// The version: never derived from the value in a way that tells it.
    pub version: String,
    /// The value.
    pub value: Secret,
}

/// Issues secrets.
#[async_trait]
pub trait SecretBroker: Send + Sync {
    /// The newest version of a secret; None where the reference names nothing.
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<Option<SecretValue>, PortError>;
    /// The passphrase that encrypts an environment's states. Where there is none, one is made if `may_make`: as long
    /// as nothing is encrypted with it. Else a new one would only hide that the right one was lost.
    async fn passphrase(
        &self,
        tenant: &TenantId,
        environment: &EnvironmentId,
        may_make: bool,
    ) -> Result<Secret, PortError>;
}
