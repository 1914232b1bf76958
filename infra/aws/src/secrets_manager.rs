//! Secrets in Secrets Manager: `PREFIX/values/TENANT/REFERENCE` and `PREFIX/passphrases/TENANT/ENVIRONMENT`.

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_secretsmanager::Client;
use events::{EnvironmentId, TenantId};
use ports::secret_broker::{SecretBroker, SecretValue};
use ports::{Ids, PortError, Secret};

use crate::fault::fault;
use crate::names::safe_name;

/// Names of secrets, behind what they begin with.
#[derive(Debug, Clone)]
pub struct SecretNames(pub String);

impl SecretNames {
    /// The name of a tenant's secret: a role's rights are by its beginning.
    pub fn value(&self, tenant: &TenantId, reference: &str) -> String {
        format!("{}/values/{}/{}", self.0, safe_name(tenant.as_str()), safe_name(reference))
    }

    /// The name of an environment's passphrase.
    pub fn passphrase(&self, tenant: &TenantId, environment: &EnvironmentId) -> String {
        let (tenant, environment) = (safe_name(tenant.as_str()), safe_name(environment.as_str()));
        format!("{}/passphrases/{tenant}/{environment}", self.0)
    }
}

/// The broker.
#[derive(Clone)]
pub struct SecretsManagerBroker {
    /// Secrets Manager.
    pub client: Client,
    /// Names of secrets.
    pub names: SecretNames,
    /// Makes passphrases and versions.
    pub ids: Arc<dyn Ids>,
}

const WHAT: &str = "Secrets Manager";

impl SecretsManagerBroker {
    async fn read(&self, name: &str) -> Result<Option<SecretValue>, PortError> {
        match self.client.get_secret_value().secret_id(name).send().await {
            Ok(found) => {
                let (Some(value), Some(version)) = (found.secret_string, found.version_id) else {
                    return Err(PortError::broken(format!("secret {name} is no text"), "store it as text"));
                };
                Ok(Some(SecretValue { version, value: Secret::new(value) }))
            }
            // One that waits for its deletion is as good as gone.
            Err(e)
                if e.as_service_error().is_some_and(|e| {
                    e.is_resource_not_found_exception() || e.is_invalid_request_exception()
                }) =>
            {
                Ok(None)
            }
            Err(e) => Err(fault(WHAT, e)),
        }
    }

    /// Stores a secret; the same value again keeps its version.
    pub async fn set(&self, tenant: &TenantId, reference: &str, value: &Secret) -> Result<(), PortError> {
        let name = self.names.value(tenant, reference);
        match self.read(&name).await? {
            Some(found) if found.value.reveal() == value.reveal() => Ok(()),
            Some(_) => {
                self.client
                    .put_secret_value()
                    .secret_id(name)
                    .client_request_token(self.ids.fresh().to_string())
                    .secret_string(value.reveal())
                    .send()
                    .await
                    .map_err(|e| fault(WHAT, e))?;
                Ok(())
            }
            None => self.create(&name, value.reveal()).await,
        }
    }

    async fn create(&self, name: &str, value: &str) -> Result<(), PortError> {
        let sent = self
            .client
            .create_secret()
            .name(name)
            .client_request_token(self.ids.fresh().to_string())
            .secret_string(value)
            .send()
            .await;
        match sent {
            Ok(_) => Ok(()),
            Err(e) if e.as_service_error().is_some_and(|e| e.is_resource_exists_exception()) => Ok(()),
            Err(e) => Err(fault(WHAT, e)),
        }
    }
}

#[async_trait]
impl SecretBroker for SecretsManagerBroker {
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<Option<SecretValue>, PortError> {
        if reference.chars().any(char::is_control) {
            let what = format!("secret reference {reference:?} contains a control character");
            return Err(PortError::broken(what, "remove it"));
        }
        self.read(&self.names.value(tenant, reference)).await
    }

    async fn passphrase(
        &self,
        tenant: &TenantId,
        environment: &EnvironmentId,
        may_make: bool,
    ) -> Result<Secret, PortError> {
        let name = self.names.passphrase(tenant, environment);
        if let Some(found) = self.read(&name).await? {
            return Ok(found.value);
        }
        if !may_make {
            return Err(PortError::broken(
                format!(
                    "the passphrase of environment {environment} is missing, and its state is encrypted with it"
                ),
                format!("restore the secret {name}, then run again"),
            ));
        }
        let made = format!("{}{}", self.ids.fresh().simple(), self.ids.fresh().simple());
        self.create(&name, &made).await?;
        // Whoever was first made it.
        let found = self.read(&name).await?;
        found.map(|f| f.value).ok_or_else(|| PortError::unavailable(WHAT, "a new passphrase isn't there yet"))
    }
}
