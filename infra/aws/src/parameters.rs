//! Configuration in Systems Manager's Parameter Store: `/PREFIX/TENANT/REFERENCE`.

use async_trait::async_trait;
use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::ProvideErrorMetadata;
use aws_sdk_ssm::types::{ParameterTier, ParameterType};
use events::TenantId;
use ports::PortError;
use ports::config_platform::{ConfigPlatform, ConfigValue};

use crate::fault::fault;
use crate::names::safe_name;

/// The parameters of an account.
#[derive(Clone)]
pub struct ParameterStore {
    /// Systems Manager.
    pub client: Client,
    /// What the names begin with, without its slash.
    pub prefix: String,
}

const WHAT: &str = "Parameter Store";

impl ParameterStore {
    /// The name of a tenant's parameter: a role's rights are by its beginning.
    pub fn name(&self, tenant: &TenantId, reference: &str) -> String {
        format!("/{}/{}/{}", self.prefix, safe_name(tenant.as_str()), safe_name(reference))
    }

    /// Stores a value; its version. The same value again keeps it.
    pub async fn set(&self, tenant: &TenantId, reference: &str, value: &str) -> Result<i64, PortError> {
        if let Some(found) = self.resolve(tenant, reference).await?.filter(|found| found.value == value) {
            return Ok(found.version.parse().unwrap_or_default());
        }
        let set = self
            .client
            .put_parameter()
            .name(self.name(tenant, reference))
            .value(value)
            .r#type(ParameterType::String)
            .tier(ParameterTier::IntelligentTiering)
            .overwrite(true)
            .send()
            .await;
        match set {
            Ok(set) => Ok(set.version),
            Err(e) if e.code() == Some("ValidationException") => Err(PortError::broken(
                format!("{reference} can't have that value: {}", e.message().unwrap_or_default()),
                "Parameter Store takes 1 to 8192 characters",
            )),
            Err(e) => Err(fault(WHAT, e)),
        }
    }
}

#[async_trait]
impl ConfigPlatform for ParameterStore {
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<Option<ConfigValue>, PortError> {
        match self.client.get_parameter().name(self.name(tenant, reference)).send().await {
            Ok(found) => {
                let found = found.parameter;
                let value = found.as_ref().and_then(|p| p.value.clone());
                let version = found.map(|p| p.version.to_string());
                let (Some(value), Some(version)) = (value, version) else { return Ok(None) };
                Ok(Some(ConfigValue { version, value }))
            }
            Err(e) if e.as_service_error().is_some_and(|e| e.is_parameter_not_found()) => Ok(None),
            Err(e) => Err(fault(WHAT, e)),
        }
    }
}
