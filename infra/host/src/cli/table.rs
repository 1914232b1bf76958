//! Tables for people: what matters first.

use std::fmt;

use application::queries::RunView;
use comfy_table::{ContentArrangement, presets};
use events::{PlanSummary, ProvisioningRunId};
use serde::Serialize;
use serde_json::Value;

use super::Context;
use super::client::CliError;
use super::say::{self, say};

/// A table whose cells steer no terminal. They are made so before they are laid out, as it makes them longer.
pub struct Table(comfy_table::Table);

impl Table {
    /// One more row.
    pub fn add_row(&mut self, cells: Vec<String>) {
        self.0.add_row(cells.iter().map(|cell| say::shown(cell)).collect::<Vec<_>>());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A table with headings.
pub fn table(headings: &[&str]) -> Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if std::env::var_os("COLUMNS").is_none() {
        table.set_width(120);
    }
    table.set_header(headings.to_vec());
    Table(table)
}

/// JSON for programs.
pub fn json(value: &impl Serialize) -> Result<(), CliError> {
    say::json(&serde_json::to_string_pretty(value).map_err(CliError::failed)?)
}

/// An answer: a line for people, the whole of it for programs.
pub fn answer(context: &Context, answer: &Value, line: fmt::Arguments<'_>) -> Result<(), CliError> {
    if context.json { json(answer) } else { say::line(line) }
}

/// What a plan would do, deletes first.
pub fn summary(plan: Option<&PlanSummary>) -> String {
    let Some(plan) = plan else { return "-".to_owned() };
    let mut parts = vec![];
    for (count, what) in [
        (plan.protected, "PROTECTED to delete"),
        (plan.deletes, "delete"),
        (plan.replaces, "replace"),
        (plan.changes, "change"),
        (plan.adds, "add"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    if parts.is_empty() { format!("no changes ({} stay)", plan.unchanged) } else { parts.join(", ") }
}

/// The first letters of an id; enough for a person, and for a command.
pub fn short(id: ProvisioningRunId) -> String {
    id.to_string().chars().take(8).collect()
}

/// Runs, the newest first.
pub fn runs(runs: &[RunView]) -> Result<(), CliError> {
    let mut table = table(&["run", "environment", "kind", "state", "plan", "why"]);
    for run in runs {
        table.add_row(vec![
            short(run.provisioning_run_id),
            run.environment_id.to_string(),
            run.kind.to_string(),
            run.state.to_string(),
            summary(run.plan_summary.as_ref()),
            run.detail.clone(),
        ]);
    }
    say!("{table}")
}

/// One run.
pub fn run(run: &RunView) -> Result<(), CliError> {
    let mut table = table(&["run", &run.provisioning_run_id.to_string()]);
    let mut row = |name: &str, value: String| {
        table.add_row(vec![name.to_owned(), value]);
    };
    row("state", run.state.to_string());
    row("why", run.detail.clone());
    row("plan", summary(run.plan_summary.as_ref()));
    row("environment", run.environment_id.to_string());
    row("kind", run.kind.to_string());
    row(
        "program",
        format!("{} {} @ {}", run.program.repository, run.program.path, run.program.commit.short()),
    );
    row("specification", format!("{} version {}", run.specification_id, run.specification_version));
    row("requested by", run.requested_by.to_string());
    if let Some(approval) = &run.approval {
        row("approved by", format!("{} at {}", approval.decided_by, approval.decided_at.to_rfc3339()));
    }
    if let Some(plan) = &run.plan_summary {
        row("plan digest", plan.digest.clone());
    }
    if let Some(outputs) = &run.outputs {
        row("outputs", outputs.to_string());
    }
    row("declared", run.started_at.to_rfc3339());
    if let Some(end) = run.completed_at {
        row("ended", end.to_rfc3339());
    }
    say!("{table}")
}
