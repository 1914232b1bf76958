//! What a session runs: a job of steps, and the secrets that never touch the disk.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::StartError;

/// The name of the variable that marks every process of a session.
pub const MARKER_VARIABLE: &str = "RUNTIME_CLOUD_RUN";

/// Everything a supervisor needs to know, except the secrets. Written to the session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Put into the environment of every process as [`MARKER_VARIABLE`]; unique per session.
    pub marker: String,
    /// Run one after the other, until one ends with a code that it does not accept.
    pub steps: Vec<Step>,
    /// When the whole session is stopped, in milliseconds since 1970.
    pub deadline_unix_ms: u64,
    /// How long a step may take to end after its graceful signal before everything is killed.
    pub grace_ms: u64,
    /// Bytes that all steps together may write to their outputs.
    pub output_limit: u64,
    /// Gives the steps a cgroup of their own where the machine allows it; elsewhere it changes nothing.
    pub own_cgroup: bool,
}

/// One program of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Lower-case letters, digits and dashes: part of its output files' names.
    pub name: String,
    /// The program, then its arguments. Never a secret: every user of the machine can read them.
    pub argv: Vec<String>,
    /// The complete environment: nothing is inherited. The marker is added.
    pub env: BTreeMap<String, String>,
    /// Variable name to secret: the variable is set to `/dev/fd/N`, from which the secret can be read.
    #[serde(default)]
    pub secret_files: BTreeMap<String, SecretFile>,
    /// Variable name to secret: the variable is set to the secret itself, which every program of the step can read.
    /// For what a cloud's own tools take from nowhere else.
    #[serde(default)]
    pub secret_env: BTreeMap<String, String>,
    /// What it reads on its standard input.
    #[serde(default)]
    pub stdin: Stdin,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// How long it may run before it is stopped.
    pub timeout_ms: u64,
    /// Exit codes after which the next step runs.
    pub accepted_codes: Vec<i32>,
    /// The signal that asks it to stop. Sent once only: Pulumi breaks off at the second.
    #[serde(default)]
    pub graceful: Graceful,
}

/// A secret that a program reads from a descriptor, by the secret's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretFile {
    /// A pipe: whoever reads it first empties it, so that programs started later find nothing.
    Once(String),
    /// A file in memory that every process of the step can read again and again. `pulumi stack init` asks
    /// twice and would silently take an empty passphrase from a pipe; it runs no program that could look.
    Rereadable(String),
}

impl SecretFile {
    fn secret(&self) -> &str {
        match self {
            Self::Once(name) | Self::Rereadable(name) => name,
        }
    }
}

/// The standard input of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stdin {
    /// Nothing to read.
    #[default]
    Null,
    /// The secret of that name, then the end.
    Secret(String),
}

/// The signal that asks a step to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Graceful {
    /// SIGINT, which makes Pulumi finish the operation in flight.
    #[default]
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Step {
    /// A step with an empty environment, no input, accepting 0 only.
    pub fn new(name: impl Into<String>, argv: Vec<String>, cwd: impl Into<PathBuf>, timeout_ms: u64) -> Self {
        Self {
            name: name.into(),
            argv,
            env: BTreeMap::new(),
            secret_files: BTreeMap::new(),
            secret_env: BTreeMap::new(),
            stdin: Stdin::Null,
            cwd: cwd.into(),
            timeout_ms,
            accepted_codes: vec![0],
            graceful: Graceful::Interrupt,
        }
    }

    /// The file name of its standard output, given its place in the job.
    pub fn stdout_file(&self, place: usize) -> String {
        format!("{place}-{}.stdout", self.name)
    }

    /// The file name of its standard error, given its place in the job.
    pub fn stderr_file(&self, place: usize) -> String {
        format!("{place}-{}.stderr", self.name)
    }
}

/// Secrets by name. They reach the supervisor through a pipe and are never shown by `Debug`.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Secrets(BTreeMap<String, Vec<u8>>);

impl Secrets {
    /// No secrets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one, replacing one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.insert(name.into(), value.into());
    }

    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// The largest secret: what a pipe holds without anyone reading it.
pub(crate) const SECRET_LIMIT: usize = 60 * 1024;

impl Job {
    /// Refuses what could not run, before anything exists on disk.
    pub(crate) fn check(&self, secrets: &Secrets) -> Result<(), StartError> {
        let refuse = |why: String| Err(StartError::InvalidJob { why });
        if self.marker.is_empty() || self.marker.contains(['\0', '=', '/']) {
            return refuse("its marker is empty or has a NUL, '=' or '/' in it".into());
        }
        if self.steps.is_empty() {
            return refuse("it has no steps".into());
        }
        for step in &self.steps {
            let named = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if step.name.is_empty() || step.name.len() > 64 || !step.name.bytes().all(named) {
                return refuse(format!("the step name {:?} is not made of a-z, 0-9 and dashes", step.name));
            }
            if step.argv.is_empty() {
                return refuse(format!("step {} names no program", step.name));
            }
            let stdin = match &step.stdin {
                Stdin::Null => None,
                Stdin::Secret(name) => Some(name.as_str()),
            };
            let files = step.secret_files.values().map(SecretFile::secret);
            for secret in files.chain(step.secret_env.values().map(String::as_str)).chain(stdin) {
                match secrets.get(secret) {
                    None => {
                        return refuse(format!("step {} wants the secret {secret}, not given", step.name));
                    }
                    Some(value) if value.len() > SECRET_LIMIT => {
                        return refuse(format!("the secret {secret} is larger than {SECRET_LIMIT} bytes"));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}
