//! Settings of a host, from flags and from `settings.json` in the data folder. `docs/settings.md` is their table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// What a person may set. Times are in seconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HostSettings {
    /// How long a run waits for an approval.
    pub approval_expiry_seconds: u32,
    /// How long a plan may take.
    pub plan_limit_seconds: u32,
    /// How long an apply may take.
    pub apply_limit_seconds: u32,
    /// How long an operation in flight may take to end after a stop.
    pub stop_grace_seconds: u32,
    /// Bytes that a plan or an apply may print.
    pub output_limit_bytes: u64,
    /// Between two backups; 0 makes none.
    pub backup_every_seconds: u32,
    /// Backups that are kept.
    pub backups_kept: usize,
    /// A command that gives secrets, as Git's credential helpers do.
    pub secret_command: Option<PathBuf>,
    /// A folder with further Cedar policies.
    pub policies: Option<PathBuf>,
    /// Further resource types whose deletion in production waits for approval.
    pub protected_types: Vec<String>,
    /// Names of variables of the host that its runs see.
    pub pass_environment: Vec<String>,
}

impl Default for HostSettings {
    fn default() -> Self {
        HostSettings {
            approval_expiry_seconds: 24 * 3600,
            plan_limit_seconds: 600,
            apply_limit_seconds: 3600,
            stop_grace_seconds: 60,
            output_limit_bytes: 50 * 1024 * 1024,
            backup_every_seconds: 900,
            backups_kept: 96,
            secret_command: None,
            policies: None,
            protected_types: vec![],
            pass_environment: vec![],
        }
    }
}

/// Why the settings can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{file} can't be used: {problem}; correct it")]
pub struct SettingsError {
    file: PathBuf,
    problem: String,
}

impl HostSettings {
    /// Reads `settings.json` of a data folder; without one, the defaults.
    pub fn read(data: &Path) -> Result<HostSettings, SettingsError> {
        let file = data.join("settings.json");
        let problem = |problem: String| SettingsError { file: file.clone(), problem };
        match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| problem(e.to_string())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(HostSettings::default()),
            Err(e) => Err(problem(e.to_string())),
        }
    }

    /// The application's part.
    pub fn application(&self, baseline: Option<events::Program>) -> application::Settings {
        let seconds = |n: u32| chrono::TimeDelta::seconds(i64::from(n));
        application::Settings {
            approval_expiry: seconds(self.approval_expiry_seconds),
            plan_limit: seconds(self.plan_limit_seconds),
            apply_limit: seconds(self.apply_limit_seconds),
            baseline,
            ..application::Settings::default()
        }
    }

    /// The grace of a stop.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(u64::from(self.stop_grace_seconds))
    }
}
