//! Environments.

use clap::Subcommand;
use embedded::RandomIds;
use events::{
    EnvironmentClass, EnvironmentCreated, EnvironmentId, InboundData, ProjectId, Target, TargetKind,
};
use ports::Ids;
use serde_json::{Value, json};

use super::client::CliError;
use super::{Context, exit, table};

/// How long the host may take to handle the event.
const TAKEN_IN: std::time::Duration = std::time::Duration::from_secs(10);

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
    },
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
) -> EnvironmentCreated {
    EnvironmentCreated {
        environment_id: environment.clone(),
        tenant_id: context.tenant.clone(),
        project_id: project.clone(),
        class,
        region: region.to_owned(),
        targets: vec![Target { kind: TargetKind::Local, reference: "this-machine".to_owned() }],
        identity_ref: None,
        baseline_program: None,
    }
}

impl Environments {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let client = context.client()?;
        match self {
            Environments::List => {
                let found: Vec<Value> = client.get("/v1/environments")?;
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
                println!("{out}");
            }
            Environments::Create { environment, class, project, region } => {
                let event = created(context, environment, *class, project, region);
                client.publish(&envelope(&event, &RandomIds.fresh().to_string())?)?;
                let known = || -> Result<bool, CliError> {
                    let all: Vec<Value> = client.get("/v1/environments")?;
                    Ok(all.iter().any(|e| {
                        e.get("environmentId").and_then(Value::as_str) == Some(environment.as_str())
                    }))
                };
                let until = std::time::Instant::now() + TAKEN_IN;
                while !known()? {
                    if std::time::Instant::now() > until {
                        let message = "the event is taken in, but the environment isn't there yet; see `runtime-cloud events dead`";
                        return Err(CliError::new(exit::FAILED, message));
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                println!("environment {environment} of class {class} is there; its baseline is planned");
            }
        }
        Ok(exit::OK)
    }
}
