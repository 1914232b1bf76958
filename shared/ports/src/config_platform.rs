//! Configuration values, by reference and version.

use async_trait::async_trait;
use events::TenantId;

use crate::error::PortError;

/// A value at a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigValue {
    /// The version.
    pub version: String,
    /// The value.
    pub value: String,
}

/// Reads values.
#[async_trait]
pub trait ConfigPlatform: Send + Sync {
    /// The newest version of a value; None where the reference names nothing.
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<Option<ConfigValue>, PortError>;
}
