//! What a service shall be.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digest;
use crate::error::LocalError;
use crate::health::{Check, Probe};
use crate::property::{Properties, Property};
use crate::service::inputs;

/// A service as it was asked for, without its secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) replicas: u32,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) working_directory: Option<String>,
    #[serde(default)]
    pub(crate) version: Option<String>,
    // Kept as it was given, so that reading gives back the same.
    #[serde(default)]
    pub(crate) health: Option<serde_json::Value>,
    pub(crate) stop_timeout_seconds: f64,
}

/// The secret part, which is never written down.
pub(crate) type Secrets = BTreeMap<String, String>;

impl Spec {
    /// Reads inputs that `check` has let pass.
    pub(crate) fn from_inputs(properties: &Properties) -> Result<(Self, Secrets), LocalError> {
        let read = inputs::read(properties);
        if let Some(failure) = read.failures.into_list().first() {
            return Err(LocalError::Inputs(format!("`{}` {}", failure.property, failure.reason)));
        }
        let missing =
            |key: &str| LocalError::Inputs(format!("`{key}` is missing or not known yet: run `up` again"));
        let spec = Self {
            name: read.name.ok_or_else(|| missing("name"))?,
            command: read.command.ok_or_else(|| missing("command"))?,
            replicas: read.replicas.unwrap_or(1),
            env: read.env.unwrap_or_default(),
            working_directory: read.working_directory,
            version: read.version,
            health: properties.get("health").map(Property::to_json),
            stop_timeout_seconds: read.stop_timeout.unwrap_or(inputs::STOP_TIMEOUT),
        };
        Ok((spec, read.secret_env.unwrap_or_default()))
    }

    /// The inputs that give this service.
    pub(crate) fn to_inputs(&self) -> Properties {
        let texts = |map: &BTreeMap<String, String>| {
            Property::Map(
                map.iter().map(|(key, value)| (key.clone(), Property::text(value.as_str()))).collect(),
            )
        };
        let mut inputs = Properties::from([
            ("name".to_owned(), Property::text(self.name.as_str())),
            (
                "command".to_owned(),
                Property::List(self.command.iter().map(|word| Property::text(word.as_str())).collect()),
            ),
            ("replicas".to_owned(), Property::Number(f64::from(self.replicas))),
            ("stopTimeoutSeconds".to_owned(), Property::Number(self.stop_timeout_seconds)),
        ]);
        if !self.env.is_empty() {
            inputs.insert("env".to_owned(), texts(&self.env));
        }
        for (key, value) in [("workingDirectory", &self.working_directory), ("version", &self.version)] {
            if let Some(value) = value {
                inputs.insert(key.to_owned(), Property::text(value.as_str()));
            }
        }
        if let Some(health) = &self.health {
            inputs.insert("health".to_owned(), Property::from_json(health));
        }
        inputs
    }

    /// Changes with everything that a process must be started anew for.
    pub(crate) fn revision(&self, secrets: &Secrets, key: &[u8; 32]) -> String {
        // A JSON list keeps the parts apart whatever they hold.
        let parts =
            serde_json::json!([self.command, self.env, secrets, self.working_directory, self.version]);
        digest::keyed(key, parts.to_string().as_bytes())
    }

    pub(crate) fn check(&self) -> Option<Check> {
        let health = Property::from_json(self.health.as_ref()?);
        let mut failures = crate::check::Failures::default();
        inputs::health(&health, self.replicas, &mut failures)
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.check().map(|check| check.probes.iter().map(Probe::address).collect()).unwrap_or_default()
    }

    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.stop_timeout_seconds.clamp(0.0, 3600.0))
    }
}
