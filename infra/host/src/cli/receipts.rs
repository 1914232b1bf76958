//! Receipts.

use application::queries::ChainReport;
use clap::{Subcommand, ValueEnum};
use domain::plan::StepValue;
use domain::receipt::{PlanReceipt, RefreshCheck};
use events::EnvironmentId;
use serde_json::Value;

use super::client::{CliError, part};
use super::say::{one_line, say};
use super::{Context, exit, runs, table};

/// Which receipt.
#[derive(Clone, Copy, ValueEnum)]
pub enum Which {
    /// Of the plan.
    Plan,
    /// Of the apply.
    Apply,
}

/// Receipts.
#[derive(Subcommand)]
pub enum Receipts {
    /// The receipt of a run.
    Show {
        /// The run.
        run: String,
        /// Which.
        #[arg(value_enum, default_value = "apply")]
        which: Which,
    },
    /// Walks the chain of an environment's receipts and names the first break.
    Verify {
        /// The environment.
        environment: EnvironmentId,
    },
}

/// A value as it will be, and as it was.
fn change(value: &StepValue) -> String {
    let text = match (&value.old, &value.new) {
        (Some(old), Some(new)) => format!("{}: {old} -> {new}", value.path),
        (Some(old), None) => format!("{}: {old} -> (none)", value.path),
        (None, Some(new)) => format!("{}: {new}", value.path),
        (None, None) => value.path.clone(),
    };
    one_line(&text)
}

/// A plan receipt, step by step, deletes first.
pub fn plan(receipt: &PlanReceipt) -> Result<(), CliError> {
    let mut steps: Vec<_> = receipt.steps.iter().collect();
    steps.sort_by_key(|s| (!s.op.deletes(), s.op, &s.urn));
    let mut out = table::table(&["does", "resource", "changes"]);
    for step in &steps {
        let op = serde_json::to_value(step.op).ok();
        let op = op.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let op = if step.op.deletes() { op.to_uppercase() } else { op };
        out.add_row(vec![op, step.urn.clone(), step.changed.join(", ")]);
    }
    say!("{out}")?;
    for step in steps.iter().filter(|s| !s.values.is_empty()) {
        say!("{}", one_line(&step.urn))?;
        for value in &step.values {
            say!("    {}", change(value))?;
        }
    }
    match &receipt.refresh {
        Some(RefreshCheck::Looked { differing, .. }) => {
            for found in differing {
                let what = if found.gone { "is GONE".to_owned() } else { found.changed.join(", ") };
                let what = one_line(&format!("{} {what}", found.urn));
                say!("not as the state says, and not part of this plan: {what}")?;
            }
        }
        Some(RefreshCheck::Unknown { why }) => {
            say!("UNKNOWN whether the state is still true: {}", one_line(why))?;
        }
        None => {}
    }
    say!("plan {}  inputs {}", receipt.plan_file.short(), receipt.inputs_hash.short())?;
    say!("route: {}", receipt.route)
}

impl Receipts {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let client = context.client()?;
        match self {
            Receipts::Show { run, which } => {
                let run = runs::find(&client, run)?.provisioning_run_id;
                match which {
                    Which::Plan if !context.json => {
                        plan(&client.get(&format!("/v1/provisioning-runs/{run}/plan-receipt"))?)?;
                    }
                    Which::Plan => {
                        let receipt: Value =
                            client.get(&format!("/v1/provisioning-runs/{run}/plan-receipt"))?;
                        table::json(&receipt)?;
                    }
                    Which::Apply => {
                        let receipt: Value =
                            client.get(&format!("/v1/provisioning-runs/{run}/apply-receipt"))?;
                        table::json(&receipt)?;
                    }
                }
                Ok(exit::OK)
            }
            Receipts::Verify { environment } => {
                let path = format!("/v1/environments/{}/receipts", part(environment.as_str()));
                let report: ChainReport = client.get(&path)?;
                if context.json {
                    table::json(&report)?;
                } else if let Some(broken) = &report.broken {
                    say!("{} link(s) hold; BROKEN: {broken}", report.verified)?;
                } else {
                    say!("{} link(s) hold", report.verified)?;
                }
                Ok(if report.broken.is_some() { exit::FOUND } else { exit::OK })
            }
        }
    }
}
