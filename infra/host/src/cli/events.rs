//! Events in and out.

use std::io::Read;
use std::path::PathBuf;

use clap::Subcommand;
use http_api::LoggedEvent;
use ports::queue::DeadLetter;
use serde_json::{Value, json};

use super::client::CliError;
use super::say::say;
use super::{Context, exit, table};

/// Events.
#[derive(Subcommand)]
pub enum Events {
    /// What was on the bus.
    List {
        /// Behind this place.
        #[arg(long, default_value_t = 0)]
        after: i64,
        /// At most so many; no more than 1000.
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Sends one: a CloudEvents envelope in JSON.
    Send {
        /// The file; `-` for standard input.
        file: PathBuf,
    },
    /// Messages that nobody could handle.
    Dead,
    /// Sends a dead message again.
    Redrive {
        /// Its id.
        id: uuid::Uuid,
    },
}

impl Events {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let client = context.client()?;
        match self {
            Events::List { after, limit } => {
                let logged: Vec<LoggedEvent> =
                    client.get(&format!("/v1/events?after={after}&limit={limit}"))?;
                if context.json {
                    table::json(&logged)?;
                } else {
                    show(&logged)?;
                }
            }
            Events::Send { file } => {
                let text = if file.as_os_str() == "-" {
                    let mut text = String::new();
                    std::io::stdin().read_to_string(&mut text).map_err(CliError::failed)?;
                    text
                } else {
                    std::fs::read_to_string(file)
                        .map_err(|e| CliError::new(exit::USAGE, format!("{}: {e}", file.display())))?
                };
                let event: Value = serde_json::from_str(&text)
                    .map_err(|e| CliError::new(exit::USAGE, format!("{}: no JSON: {e}", file.display())))?;
                client.publish(&event)?;
                let id = event.get("id").unwrap_or(&Value::Null);
                table::answer(context, &json!({ "taken": id }), format_args!("taken in"))?;
            }
            Events::Dead => {
                let dead: Vec<DeadLetter> = client.get("/v1/dead-letters")?;
                if context.json {
                    table::json(&dead)?;
                    return Ok(exit::OK);
                }
                let mut out = table::table(&["id", "queue", "since", "why"]);
                for letter in dead {
                    out.add_row(vec![
                        letter.id.to_string(),
                        letter.queue,
                        letter.at.to_rfc3339(),
                        letter.reason,
                    ]);
                }
                say!("{out}")?;
            }
            Events::Redrive { id } => {
                let answer: Value = client.post(&format!("/v1/dead-letters/{id}/redrive"), &json!({}))?;
                table::answer(context, &answer, format_args!("sent again"))?;
            }
        }
        Ok(exit::OK)
    }
}

/// Events as a table.
pub fn show(logged: &[LoggedEvent]) -> Result<(), CliError> {
    let mut out = table::table(&["#", "time", "event", "about"]);
    for event in logged {
        let envelope = &event.envelope;
        let about = envelope.subject.clone().or_else(|| {
            let id = |f: &str| envelope.data.get(f).and_then(Value::as_str).map(str::to_owned);
            id("environmentId").or_else(|| id("provisioningRunId"))
        });
        out.add_row(vec![
            event.seq.to_string(),
            envelope.time.format("%H:%M:%S%.3f").to_string(),
            envelope.topic.clone(),
            about.unwrap_or_default(),
        ]);
    }
    say!("{out}")
}
