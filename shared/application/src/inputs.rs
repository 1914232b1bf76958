//! Resolves what a program reads: configuration and secrets by reference, at a version.

use std::collections::{BTreeMap, BTreeSet};

use domain::plan::{BoundInputs, ResolvedRef};
use domain::{DeploymentSpecification, Environment};
use ports::{ConfigPlatform, PortError, Runner, Secret, SecretBroker};

/// Inputs with their values.
pub struct Resolved {
    /// What the plan rests on: references and versions, never values.
    pub bound: BoundInputs,
    /// Plain values by key, with the reserved ones.
    pub config: BTreeMap<String, String>,
    /// Secret values by key.
    pub secrets: BTreeMap<String, Secret>,
}

/// A reference that names nothing.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// In the Config Platform.
    #[error(
        "configuration {key}: reference {reference:?} names nothing; set it with `runtime-cloud config set`, or correct the promotion"
    )]
    NoConfig {
        /// The key.
        key: String,
        /// The reference.
        reference: String,
    },
    /// In the Secret Broker.
    #[error(
        "secret {key}: reference {reference:?} names nothing; put it into the Secret Broker, or correct the promotion"
    )]
    NoSecret {
        /// The key.
        key: String,
        /// The reference.
        reference: String,
    },
    /// At the port.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Resolves now.
pub async fn resolve(
    specification: &DeploymentSpecification,
    environment: &Environment,
    platform: &dyn ConfigPlatform,
    broker: &dyn SecretBroker,
    runner: &dyn Runner,
) -> Result<Resolved, InputError> {
    let declaration = &specification.declaration;
    let mut config = BTreeMap::new();
    let mut config_versions = BTreeSet::new();
    for wanted in &declaration.config_refs {
        let (key, reference) = (wanted.key.clone(), wanted.reference.clone());
        let found = platform.resolve(&declaration.tenant, &reference).await?;
        let Some(found) = found else { return Err(InputError::NoConfig { key, reference }) };
        config.insert(key.clone(), found.value);
        config_versions.insert(ResolvedRef { key, reference, version: found.version });
    }
    let mut secrets = BTreeMap::new();
    let mut secret_versions = BTreeSet::new();
    for wanted in &declaration.secret_refs {
        let (key, reference) = (wanted.key.clone(), wanted.reference.clone());
        let found = broker.resolve(&declaration.tenant, &reference).await?;
        let Some(found) = found else { return Err(InputError::NoSecret { key, reference }) };
        secrets.insert(key.clone(), found.value);
        secret_versions.insert(ResolvedRef { key, reference, version: found.version });
    }
    let mut reserve = |key: &str, value: String| config.insert(format!("runtimecloud:{key}"), value);
    reserve("tenantId", declaration.tenant.to_string());
    reserve("projectId", declaration.project.to_string());
    reserve("environmentId", declaration.environment.to_string());
    reserve("class", environment.class.to_string());
    if let Some(release) = declaration.release {
        reserve("releaseId", release.to_string());
    }
    if let Some(strategy) = &declaration.strategy {
        reserve("strategy", strategy.clone());
    }
    let bound = BoundInputs {
        repository: declaration.program.repository.clone(),
        path: declaration.program.path.clone(),
        commit: declaration.program.commit.clone(),
        release: declaration.release,
        strategy: declaration.strategy.clone(),
        config: config_versions.into_iter().collect(),
        secrets: secret_versions.into_iter().collect(),
        class: environment.class,
        identity: environment.identity_ref.clone(),
        tools: runner.tools().await?,
    };
    Ok(Resolved { bound, config, secrets })
}
