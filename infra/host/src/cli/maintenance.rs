//! What keeps a host in order.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use embedded::{Checked, FileSecrets, RandomIds, SecretError};
use events::EnvironmentId;
use http_api::Check;
use ports::{Ids, Secret};
use serde_json::{Value, json};

use super::client::{CliError, part};
use super::say::say;
use super::{Context, exit, runs, table};
use crate::host::{self, RESTORED};

/// Configuration values.
#[derive(Subcommand)]
pub enum Config {
    /// Sets one; the same value again is the same version.
    Set {
        /// Its reference.
        reference: String,
        /// Its value.
        value: String,
    },
}

impl Config {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let Config::Set { reference, value } = self;
        let body = json!({ "ref": reference, "value": value });
        let answer: Value = context.client()?.post("/v1/config", &body)?;
        let version = answer.get("version").unwrap_or(&Value::Null);
        table::answer(context, &answer, format_args!("{reference} is at version {version}"))?;
        Ok(exit::OK)
    }
}

/// Secrets of the local broker.
#[derive(Subcommand)]
pub enum Secrets {
    /// Puts one into its file; the value comes on standard input, and newlines at its end are dropped.
    Set {
        /// Its reference.
        reference: String,
    },
}

impl Secrets {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let Secrets::Set { reference } = self;
        let mut value = vec![];
        std::io::stdin().read_to_end(&mut value).map_err(CliError::failed)?;
        let value = String::from_utf8(value).map_err(|_| {
            let message =
                format!("the value of secret {reference} is no UTF-8 text; encode it, such as with base64");
            CliError::new(exit::USAGE, message)
        })?;
        let value = Secret::new(value.trim_end_matches('\n'));
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        let broker = FileSecrets { folder: context.data.join("secrets"), command: None, ids };
        broker.set(&context.tenant, reference, &value).map_err(|e| match e {
            SecretError::Reference(_) => CliError::new(exit::USAGE, e.to_string()),
            SecretError::Write { .. } => CliError::failed(e),
        })?;
        table::answer(context, &json!({ "ref": reference }), format_args!("{reference} is set"))?;
        Ok(exit::OK)
    }
}

/// What a person does where the machine can't know.
#[derive(Subcommand)]
pub enum Recover {
    /// Ends a silent run that nothing proves dead; its environment is closed until it is cleared.
    Break {
        /// The run.
        run: String,
        /// Why.
        #[arg(long)]
        reason: String,
    },
    /// Reopens a closed environment, after you have looked at its resources.
    Clear {
        /// The environment.
        environment: EnvironmentId,
    },
    /// Counts the unfinished operations of an environment's states as settled, after you have looked at them.
    Settle {
        /// The environment.
        environment: EnvironmentId,
    },
}

impl Recover {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let client = context.client()?;
        let clear = |environment: &EnvironmentId, settle: bool| {
            let path = format!("/v1/environments/{}/clear", part(environment.as_str()));
            client.post::<Value>(&path, &json!({ "settle": settle }))
        };
        match self {
            Recover::Break { run, reason } => {
                let run = runs::find(&client, run)?.provisioning_run_id;
                let path = format!("/v1/provisioning-runs/{run}/break");
                let answer: Value = client.post(&path, &json!({ "reason": reason }))?;
                let next = "its environment is closed until `runtime-cloud recover clear`";
                table::answer(context, &answer, format_args!("run {run} is broken; {next}"))?;
            }
            Recover::Clear { environment } => {
                let answer = clear(environment, false)?;
                table::answer(context, &answer, format_args!("environment {environment} is open"))?;
            }
            Recover::Settle { environment } => {
                let answer = clear(environment, true)?;
                let settled = "its unfinished operations count as settled";
                table::answer(
                    context,
                    &answer,
                    format_args!("environment {environment} is open, {settled}"),
                )?;
            }
        }
        Ok(exit::OK)
    }
}

/// Backups of the store.
#[derive(Subcommand)]
pub enum Backup {
    /// Makes one now.
    Now,
    /// Puts one in the place of the store; no host may be running. The store that was there is kept beside it.
    Restore {
        /// The backup.
        file: PathBuf,
    },
}

impl Backup {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        match self {
            Backup::Now => {
                let answer: Value = context.client()?.post("/v1/backup", &json!({}))?;
                let file = answer.get("file").and_then(Value::as_str).unwrap_or_default();
                table::answer(context, &answer, format_args!("{file}"))?;
            }
            Backup::Restore { file } => return restore(context, file),
        }
        Ok(exit::OK)
    }
}

fn restore(context: &Context, file: &Path) -> Result<i32, CliError> {
    // Before the data folder is made: what can't be a backup leaves nothing behind.
    Checked::look(file).map_err(CliError::failed)?;
    let folder = host::lock(&context.data).map_err(CliError::failed)?;
    let folder = folder.path();
    let copy = folder.join(format!("restore-{}.sqlite", RandomIds.fresh()));
    let checked = Checked::copy(file, copy).map_err(CliError::failed)?;
    let marker = folder.join(RESTORED);
    std::fs::write(&marker, b"")
        .map_err(|e| CliError::new(exit::FAILED, format!("{} can't be written: {e}", marker.display())))?;
    let kept = folder.join(format!("replaced-{}.sqlite", RandomIds.fresh()));
    let was = checked.replace(&folder.join("store.sqlite"), &kept).map_err(CliError::failed)?;
    let kept = was.then_some(kept.to_string_lossy());
    let said = match &kept {
        Some(kept) => format!("the store that was there is {kept}"),
        None => "no store was there before".to_owned(),
    };
    table::answer(context, &json!({ "replaced": kept }), format_args!("restored; {said}"))?;
    Ok(exit::OK)
}

/// Looks at the host.
pub fn doctor(context: &Context) -> Result<i32, CliError> {
    let checks: Vec<Check> = context.client()?.get("/v1/doctor")?;
    let sound = checks.iter().all(|c| c.ok);
    if context.json {
        table::json(&checks)?;
    } else {
        let mut out = table::table(&["check", "", "found"]);
        for check in checks {
            let mark = if check.ok { "ok" } else { "LOOK" };
            out.add_row(vec![check.name, mark.to_owned(), check.detail]);
        }
        say!("{out}")?;
    }
    Ok(if sound { exit::OK } else { exit::FOUND })
}
