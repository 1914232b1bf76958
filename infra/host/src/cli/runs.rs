//! Provisioning runs, and the decisions on their plans.

use std::time::{Duration, Instant};

use application::queries::RunView;
use clap::{Args, Subcommand};
use events::{EnvironmentId, ProvisioningRunId, ProvisioningState};
use ports::queue::DeadLetter;
use serde_json::{Value, json};

use super::client::{CliError, Client, part};
use super::say::{self, say};
use super::{Context, exit, table};

/// Runs.
#[derive(Subcommand)]
pub enum Runs {
    /// The newest first.
    List {
        /// Of one environment.
        #[arg(long)]
        environment: Option<EnvironmentId>,
        /// At most so many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Those that began before this run.
        #[arg(long, value_name = "RUN")]
        after: Option<String>,
    },
    /// One run.
    Show {
        /// Its id, or the beginning of it.
        run: String,
    },
    /// Follows a run to its end.
    Watch {
        /// Its id, or the beginning of it.
        run: String,
    },
    /// The log of a run's last step.
    Logs {
        /// Its id, or the beginning of it.
        run: String,
    },
    /// Cancels a run; one that applies is asked to stop gracefully.
    Cancel {
        /// Its id, or the beginning of it.
        run: String,
        /// Why.
        #[arg(long)]
        reason: String,
    },
}

/// The run whose id begins so.
pub fn find(client: &Client, text: &str) -> Result<RunView, CliError> {
    if let Ok(id) = text.parse::<ProvisioningRunId>() {
        return client.get(&format!("/v1/provisioning-runs/{id}"));
    }
    // What is not the beginning of an id is no run's.
    let begins = !text.is_empty() && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    let mut found: Vec<RunView> = match begins {
        true => client.get(&format!("/v1/provisioning-runs?beginning={text}&limit=2"))?,
        false => vec![],
    };
    match (found.pop(), found.is_empty()) {
        // A list leaves things out.
        (Some(run), true) => client.get(&format!("/v1/provisioning-runs/{}", run.provisioning_run_id)),
        (Some(_), false) => {
            Err(CliError::new(exit::USAGE, format!("several runs begin with {text}; give more of the id")))
        }
        (None, _) => Err(CliError::new(
            exit::NOT_FOUND,
            format!("no run begins with {text}; see `runtime-cloud runs list`"),
        )),
    }
}

/// The largest page of runs.
const PAGE: usize = 100;

/// The newest runs, page after page, and whether there are more.
fn list(
    client: &Client,
    environment: Option<&EnvironmentId>,
    after: Option<RunView>,
    limit: u32,
) -> Result<(Vec<RunView>, bool), CliError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let of = environment.map(|e| format!("&environment={}", part(e.as_str()))).unwrap_or_default();
    let mut last = after.map(|run| run.provisioning_run_id);
    let mut runs: Vec<RunView> = vec![];
    loop {
        // One more than is shown says whether there are more.
        let wanted = (limit - runs.len()).saturating_add(1).min(PAGE);
        let behind = last.map(|run| format!("&after={run}")).unwrap_or_default();
        let page: Vec<RunView> = client.get(&format!("/v1/provisioning-runs?limit={wanted}{of}{behind}"))?;
        let full = page.len() == wanted;
        last = page.last().map(|run| run.provisioning_run_id);
        runs.extend(page);
        if runs.len() > limit {
            runs.truncate(limit);
            return Ok((runs, true));
        }
        if !full {
            return Ok((runs, false));
        }
    }
}

/// Whether nothing more can happen to a run without a person.
pub fn rests(run: &RunView) -> bool {
    use ProvisioningState::{Applied, AwaitingApproval, Cancelled, Failed, Rejected};
    let waits = run.state == AwaitingApproval && !run.detail.starts_with("approved by");
    waits || matches!(run.state, Applied | Failed | Rejected | Cancelled)
}

/// How long a watch waits for a promotion to become its run.
const TAKEN_IN: Duration = Duration::from_secs(120);

/// Waits until the event of a promotion has become its run: an event that nobody can handle never does.
pub fn begun(client: &Client, id: ProvisioningRunId, event: &str) -> Result<(), CliError> {
    let until = Instant::now() + TAKEN_IN;
    loop {
        match client.look::<RunView>(&format!("/v1/provisioning-runs/{id}")) {
            Ok(_) => return Ok(()),
            Err(e) if e.code != exit::NOT_FOUND => return Err(e),
            Err(_) => {}
        }
        let dead: Vec<DeadLetter> = client.look("/v1/dead-letters")?;
        if let Some(letter) = dead.iter().find(|l| carries(l, event)) {
            let message = format!(
                "the promotion was put aside as dead letter {}: {}; see `runtime-cloud events dead`",
                letter.id, letter.reason
            );
            return Err(CliError::new(exit::REFUSED, message));
        }
        if Instant::now() > until {
            let message = format!(
                "run {id} did not begin within {} s; see `runtime-cloud events dead` and `runtime-cloud doctor`",
                TAKEN_IN.as_secs()
            );
            return Err(CliError::new(exit::FAILED, message));
        }
        std::thread::sleep(client.pause(Duration::from_millis(50)));
    }
}

fn carries(letter: &DeadLetter, event: &str) -> bool {
    serde_json::from_str::<Value>(&letter.body).is_ok_and(|body| body.get("id").is_some_and(|id| id == event))
}

/// Follows a run until it ends or waits for a person.
pub fn watch(context: &Context, client: &Client, id: ProvisioningRunId) -> Result<i32, CliError> {
    let mut shown = String::new();
    loop {
        let run: RunView = client.look(&format!("/v1/provisioning-runs/{id}"))?;
        let line = format!("{}: {}", run.state, run.detail);
        if line != shown && !context.json {
            say!("{} {line}", table::short(id))?;
        }
        shown = line;
        if rests(&run) {
            if context.json {
                table::json(&run)?;
            }
            return Ok(if run.state == ProvisioningState::Applied { exit::OK } else { exit::NOT_APPLIED });
        }
        std::thread::sleep(client.pause(Duration::from_millis(100)));
    }
}

impl Runs {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let client = context.client()?;
        match self {
            Runs::List { environment, limit, after } => {
                let after = after.as_deref().map(|run| find(&client, run)).transpose()?;
                let (runs, more) = list(&client, environment.as_ref(), after, *limit)?;
                if context.json {
                    table::json(&runs)?;
                } else {
                    table::runs(&runs)?;
                    if let (true, Some(last)) = (more, runs.last()) {
                        say!("older ones: --after {}", table::short(last.provisioning_run_id))?;
                    }
                }
            }
            Runs::Show { run } => {
                let run = find(&client, run)?;
                if context.json {
                    table::json(&run)?;
                } else {
                    table::run(&run)?;
                }
            }
            Runs::Watch { run } => return watch(context, &client, find(&client, run)?.provisioning_run_id),
            Runs::Logs { run } => {
                let run = find(&client, run)?;
                let path = format!("/v1/provisioning-runs/{}/logs", run.provisioning_run_id);
                say::text(&client.get_text(&path)?)?;
            }
            Runs::Cancel { run, reason } => {
                let run = find(&client, run)?.provisioning_run_id;
                let path = format!("/v1/provisioning-runs/{run}/cancel");
                let answer: Value = client.post(&path, &json!({ "reason": reason }))?;
                said(context, &answer)?;
            }
        }
        Ok(exit::OK)
    }
}

fn said(context: &Context, answer: &Value) -> Result<(), CliError> {
    let text = |f: &str| answer.get(f).and_then(Value::as_str).unwrap_or_default();
    let (run, state) = (text("provisioningRunId"), text("state"));
    table::answer(context, answer, format_args!("run {run} is {state}"))
}

/// Approves the plan of a run that another person requested.
#[derive(Args)]
pub struct Approve {
    /// The run.
    run: String,
    /// The digest of the plan that you read; by default the recorded one, which is shown.
    #[arg(long)]
    plan: Option<String>,
    /// Why.
    #[arg(long)]
    reason: Option<String>,
}

/// Rejects the plan of a run.
#[derive(Args)]
pub struct Reject {
    /// The run.
    run: String,
    /// Why.
    #[arg(long)]
    reason: String,
}

fn decide(
    context: &Context,
    run: &str,
    decision: &str,
    plan: Option<&String>,
    reason: Option<&String>,
) -> Result<i32, CliError> {
    let client = context.client()?;
    let run = find(&client, run)?;
    let recorded = run.plan_summary.as_ref().map(|p| p.digest.clone());
    let digest = plan.cloned().or(recorded).ok_or_else(|| {
        CliError::new(exit::REFUSED, format!("run {} has no plan yet; wait for it", run.provisioning_run_id))
    })?;
    let path = format!("/v1/provisioning-runs/{}/approval", run.provisioning_run_id);
    let body = json!({ "decision": decision, "planDigest": digest, "reason": reason });
    let answer: Value = client.post(&path, &body)?;
    if !context.json {
        say!("{decision}: {} (plan {digest})", table::summary(run.plan_summary.as_ref()))?;
    }
    said(context, &answer)?;
    Ok(exit::OK)
}

impl Approve {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        decide(context, &self.run, "approved", self.plan.as_ref(), self.reason.as_ref())
    }
}

impl Reject {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        decide(context, &self.run, "rejected", None, Some(&self.reason))
    }
}
