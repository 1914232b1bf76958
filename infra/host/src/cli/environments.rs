//! Environments.

use std::time::{Duration, Instant};

use clap::Subcommand;
use embedded::RandomIds;
use events::{
    EnvironmentClass, EnvironmentCreated, EnvironmentId, InboundData, ProjectId, Target, TargetKind,
    UnknownValue,
};
use ports::Ids;
use serde_json::{Value, json};

use super::client::{CliError, Client, part};
use super::say::say;
use super::{Context, exit, table};

/// How long the event may take to be handled: functions may have to be started first.
const TAKEN_IN: Duration = Duration::from_secs(30);

/// Environments.
#[derive(Subcommand)]
pub enum Environments {
    /// Those of the tenant.
    List,
    /// Tells the host of a new one, as the control plane would.
    Create {
        /// Its id.
        environment: EnvironmentId,
        /// How strictly it is governed: development, test, staging or production.
        #[arg(long)]
        class: EnvironmentClass,
        /// Its project.
        #[arg(long, default_value = "default")]
        project: ProjectId,
        /// Where it is.
        #[arg(long, default_value = "local")]
        region: String,
        /// KIND=REFERENCE of where its resources live: local, kubernetes or aws; may be repeated.
        #[arg(long, value_name = "KIND=REF", default_value = "local=this-machine", value_parser = target)]
        target: Vec<Target>,
    },
}

fn target(text: &str) -> Result<Target, String> {
    let (kind, reference) = text.split_once('=').ok_or("write its kind, =, and its reference")?;
    let kind: TargetKind = kind.parse().map_err(|e: UnknownValue| e.to_string())?;
    if reference.trim().is_empty() {
        return Err("the reference is empty".to_owned());
    }
    Ok(Target { kind, reference: reference.to_owned() })
}

/// An inbound event of this command line.
pub fn envelope<E: InboundData + serde::Serialize>(event: &E, id: &str) -> Result<Value, CliError> {
    let now = ports::Clock::now(&embedded::SystemClock);
    let data = serde_json::to_value(event).map_err(CliError::failed)?;
    Ok(json!({
        "specversion": "1.0", "id": id, "source": "/runtime-cloud/cli", "type": E::TOPIC,
        "time": now, "datacontenttype": "application/json", "data": data,
    }))
}

/// An EnvironmentCreated for this machine.
pub fn created(
    context: &Context,
    environment: &EnvironmentId,
    class: EnvironmentClass,
    project: &ProjectId,
    region: &str,
    targets: Vec<Target>,
) -> EnvironmentCreated {
    EnvironmentCreated {
        environment_id: environment.clone(),
        tenant_id: context.tenant.clone(),
        project_id: project.clone(),
        class,
        region: region.to_owned(),
        targets,
        identity_ref: None,
        baseline_program: None,
    }
}

/// All environments, page after page.
fn all(client: &Client) -> Result<Vec<Value>, CliError> {
    const PAGE: usize = 500;
    let mut all: Vec<Value> = vec![];
    loop {
        let last = all.last().and_then(|e| e.get("environmentId")).and_then(Value::as_str);
        let after = last.map(|last| format!("&after={}", part(last))).unwrap_or_default();
        let page: Vec<Value> = client.get(&format!("/v1/environments?limit={PAGE}{after}"))?;
        let more = page.len() == PAGE;
        all.extend(page);
        if !more {
            return Ok(all);
        }
    }
}

impl Environments {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let client = context.client()?;
        match self {
            Environments::List => {
                let found = all(&client)?;
                if context.json {
                    table::json(&found)?;
                    return Ok(exit::OK);
                }
                let text = |v: &Value, f: &str| match v.get(f) {
                    Some(Value::String(s)) => s.clone(),
                    Some(Value::Null) | None => "-".to_owned(),
                    Some(other) => other.to_string(),
                };
                let mut out =
                    table::table(&["environment", "class", "closed", "applying", "waiting", "project"]);
                for e in &found {
                    let fields = ["environmentId", "class", "closed", "activeRun", "waiting", "projectId"];
                    out.add_row(fields.map(|f| text(e, f)).to_vec());
                }
                say!("{out}")?;
            }
            Environments::Create { environment, class, project, region, target } => {
                let event = created(context, environment, *class, project, region, target.clone());
                client.publish(&envelope(&event, &RandomIds.fresh().to_string())?)?;
                let path = format!("/v1/environments/{}", part(environment.as_str()));
                let until = Instant::now() + TAKEN_IN;
                let there = loop {
                    match client.look::<Value>(&path) {
                        Ok(there) => break there,
                        Err(e) if e.code == exit::NOT_FOUND => {}
                        Err(e) => return Err(e),
                    }
                    if Instant::now() > until {
                        let message = "the event is taken in, but the environment isn't there yet; see `runtime-cloud events dead`";
                        return Err(CliError::new(exit::FAILED, message));
                    }
                    std::thread::sleep(client.pause(Duration::from_millis(10)));
                };
                // Somebody else may have been faster.
                let stored = there.get("class").and_then(Value::as_str).unwrap_or_default();
                if stored != class.as_str() {
                    let message = format!(
                        "environment {environment} is of class {stored} and can't become {class}; create a new environment of that class"
                    );
                    return Err(CliError::new(exit::REFUSED, message));
                }
                let line = format!("environment {environment} of class {class} is there");
                table::answer(
                    context,
                    &there,
                    format_args!("{line}; if it has a baseline, that is planned"),
                )?;
            }
        }
        Ok(exit::OK)
    }
}
