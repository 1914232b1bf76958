//! What a session left, as an outcome: parsed, judged, redacted. The controller believes files, not a report.

use std::collections::BTreeMap;
use std::path::Path;

use domain::provisioning_run::{Failure, FailureReason};
use domain::receipt::{AppliedResource, FailedResource};
use ports::runner::{ApplyOutcome, Job, PlanOutcome, PlannedChanges};
use process::{EndedBy, Exit, Status};

use crate::about::About;
use crate::checkpoint::Checkpoint;
use crate::engine_events;
use crate::failure::{self, Seen};
use crate::preview::{self, clean, short};
use crate::redact::Redactor;
use crate::refresh;
use crate::steps::REFRESH;
use crate::workspace::Workspace;

/// How a session ended.
pub(crate) enum End {
    /// With its record.
    Exited(Exit),
    /// Without one; the proof of its death.
    Died(String),
}

/// More of a log isn't kept; its end is.
const LOG_LIMIT: usize = 1_048_576;

/// Knows the secrets of a job.
pub(crate) fn redactor(job: &Job) -> Redactor {
    let access = job.access.variables.values().chain(job.access.files.values());
    let secrets = job.secrets.values().chain([&job.passphrase]).chain(access);
    Redactor::new(secrets.map(|s| s.reveal()))
}

/// Whether a step was ended by a signal that it did not ask for.
pub(crate) fn was_killed(exit: &Exit, step: &str) -> bool {
    let by_signal = exit.step(step).is_some_and(|s| matches!(s.status, Status::Signal(_)));
    by_signal && matches!(exit.ended_by, EndedBy::StepFailed { .. })
}

/// A plan that there is none of.
pub(crate) fn no_plan(reason: FailureReason, message: String) -> PlanOutcome {
    let log = format!("{message}\n").into_bytes();
    PlanOutcome { result: Err(Failure { reason, message }), log, duration_ms: 0 }
}

/// An apply that changed nothing.
fn no_apply(failure: Failure) -> ApplyOutcome {
    ApplyOutcome {
        log: format!("{}\n", failure.message).into_bytes(),
        failure: Some(failure),
        failing: vec![],
        outputs: serde_json::json!({}),
        changes: BTreeMap::new(),
        resources: vec![],
        state: None,
        pending_operations: false,
        duration_ms: 0,
    }
}

/// An apply that could not be started.
pub(crate) fn not_started(why: &str) -> ApplyOutcome {
    let message = format!("{why}; nothing was touched: plan again");
    no_apply(Failure { reason: FailureReason::ApplyFailed, message })
}

/// The output of a step, by its place in the session; empty where there is none.
fn output(session: &Path, step: &str, kind: &str) -> Vec<u8> {
    let Ok(entries) = std::fs::read_dir(session) else { return vec![] };
    let suffix = format!("-{step}.{kind}");
    let file = entries.filter_map(Result::ok).find(|e| e.file_name().to_string_lossy().ends_with(&suffix));
    file.and_then(|f| std::fs::read(f.path()).ok()).unwrap_or_default()
}

/// Why a session ended early, if the session itself says so.
pub(crate) fn stopped(exit: &Exit) -> Option<(FailureReason, String)> {
    let timed_out = exit.steps.iter().find(|s| s.timed_out);
    match &exit.ended_by {
        EndedBy::Completed => None,
        EndedBy::Stopped => Some((FailureReason::Interrupted, "it was stopped".to_owned())),
        EndedBy::Deadline => Some((FailureReason::TimedOut, "it ran longer than its time limit".to_owned())),
        EndedBy::OutputLimit => {
            Some((FailureReason::OutputLimit, "it printed more than its limit".to_owned()))
        }
        EndedBy::SpawnFailed { name, why } => {
            Some((FailureReason::PlanFailed, format!("step {name} could not be started: {why}")))
        }
        EndedBy::StepFailed { name } if timed_out.is_some() => {
            Some((FailureReason::TimedOut, format!("step {name} ran longer than its time limit")))
        }
        EndedBy::StepFailed { .. } => None,
    }
}

fn duration(exit: &Exit) -> u64 {
    exit.ended_unix_ms.saturating_sub(exit.started_unix_ms)
}

/// Errors that Pulumi writes to its error output, without its noise and without secrets. It may have been stopped in
/// the middle of a line.
fn said(stderr: &[u8], redactor: &Redactor) -> String {
    let text = clean(&redactor.printed(&String::from_utf8_lossy(stderr)), redactor);
    let noise = |l: &&str| !l.trim().is_empty() && !l.starts_with("warning: using pulumi-");
    text.lines().filter(noise).collect::<Vec<_>>().join("\n")
}

/// What of its output is no JSON: what Pulumi prints before it begins, or where it breaks off.
fn plain(stdout: &[u8], redactor: &Redactor) -> String {
    let is_json = stdout.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    let text = if is_json { String::new() } else { said(stdout, redactor) };
    text.lines().filter(|l| !l.starts_with('{')).collect::<Vec<_>>().join("\n")
}

/// Secrets go before the beginning is cut off.
fn log(text: String, redactor: &Redactor) -> Vec<u8> {
    let text = redactor.text(&text);
    if text.len() <= LOG_LIMIT {
        return text.into_bytes();
    }
    let mut start = text.len() - LOG_LIMIT;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    format!("... the first {start} bytes are left out ...\n{}", text.get(start..).unwrap_or_default())
        .into_bytes()
}

/// The outcome of a plan's session.
pub(crate) fn plan(
    session: &Path,
    workspace: &Workspace,
    about: &About,
    exit: &Exit,
    redactor: &Redactor,
) -> PlanOutcome {
    let stdout = output(session, "preview", "stdout");
    let mut text = String::new();
    for step in &exit.steps {
        let stderr = said(&output(session, &step.name, "stderr"), redactor);
        if !stderr.is_empty() {
            text.push_str(&format!("{}: {stderr}\n", step.name));
        }
    }
    let preview = preview::parse(&stdout);
    let diagnostics = preview.iter().flat_map(|p| &p.diagnostics).filter(|d| d.severity != "debug");
    for diagnostic in diagnostics {
        text.push_str(&format!("{}: {}\n", diagnostic.severity, clean(&diagnostic.message, redactor)));
    }
    for step in preview.iter().flat_map(|p| &p.steps) {
        text.push_str(&format!("{} {}\n", step.op, redactor.text(&step.urn)));
    }
    let refresh = refresh::check(
        exit,
        &output(session, REFRESH, "stdout"),
        &said(&output(session, REFRESH, "stderr"), redactor),
        redactor,
    );
    if preview.is_none() {
        text.push_str(&plain(&stdout, redactor));
    }
    let result = planned(workspace, about, exit, preview, &text, redactor)
        .map(|plan| PlannedChanges { refresh, ..plan })
        .map_err(|(reason, message)| Failure { reason, message: redactor.text(&message) });
    PlanOutcome { result, log: log(text, redactor), duration_ms: duration(exit) }
}

fn planned(
    workspace: &Workspace,
    about: &About,
    exit: &Exit,
    preview: Option<preview::Preview>,
    text: &str,
    redactor: &Redactor,
) -> Result<PlannedChanges, (FailureReason, String)> {
    // A look at what is there that took too long fails no plan.
    let looked = matches!(&exit.ended_by, EndedBy::StepFailed { name } if name == REFRESH);
    if !looked && let Some(stopped) = stopped(exit) {
        return Err(stopped);
    }
    let failed = |message: String| (FailureReason::PlanFailed, message);
    if !looked && exit.ended_by != EndedBy::Completed {
        let errors = preview.as_ref().map(|p| p.errors(redactor)).unwrap_or_default();
        let mut lines: Vec<String> = errors
            .into_iter()
            .map(|(urn, message)| urn.map_or(message.clone(), |urn| format!("{urn}: {message}")))
            .collect();
        lines.dedup();
        let message = if lines.is_empty() { text.trim().to_owned() } else { lines.join("; ") };
        let message = if message.is_empty() { "Pulumi said nothing".to_owned() } else { message };
        return Err(failed(format!("{}; correct the program and commit", short(&message))));
    }
    let preview = preview.ok_or_else(|| failed("Pulumi's preview printed no plan".to_owned()))?;
    let steps = preview.steps(redactor).map_err(failed)?;
    let read = |path: std::path::PathBuf| {
        std::fs::read(&path).map_err(|e| failed(format!("{} can't be read: {e}", path.display())))
    };
    let plan_file = read(workspace.plan())?;
    let untouched = read(workspace.checkpoint(&about.project, &about.stack))?;
    Checkpoint::parse(&untouched).map_err(failed)?;
    Ok(PlannedChanges {
        plan_file,
        stack_config: read(workspace.config())?,
        steps: steps.steps,
        steps_digest: steps.digest,
        unchanged: steps.unchanged,
        refresh: None,
    })
}

/// The outcome of an apply's session.
pub(crate) fn apply(
    session: &Path,
    workspace: &Workspace,
    about: &About,
    end: &End,
    before: Option<&[u8]>,
    redactor: &Redactor,
) -> ApplyOutcome {
    let stdout = output(session, "up", "stdout");
    let stderr = said(&output(session, "up", "stderr"), redactor);
    let events = engine_events::parse(&stdout, redactor);
    let state = std::fs::read(workspace.checkpoint(&about.project, &about.stack)).ok();
    let checkpoint = state.as_deref().map(Checkpoint::parse);
    let moved = match (&state, before) {
        (Some(now), Some(before)) => now != before,
        (Some(now), None) => *now != Checkpoint::empty(&about.project, &about.stack),
        (None, _) => false,
    };
    let mut failing = events.failing;
    let part = engine_events::preview_part(&stdout);
    if failing.is_empty()
        && let Some(part) = part
    {
        let errors = preview::parse(part).map(|p| p.errors(redactor)).unwrap_or_default();
        failing.extend(errors.into_iter().map(|(urn, message)| FailedResource { urn, message }));
    }
    for resource in &mut failing {
        resource.message = short(&resource.message);
    }
    let outputs = std::fs::read(workspace.plan()).map(|p| failure::planned_outputs(&p)).unwrap_or_default();
    let seen = Seen {
        end,
        result: events.result.as_deref(),
        failing: &failing,
        stderr: &stderr,
        stdout: &plain(&stdout, redactor),
        only_previewed: part.is_some_and(|part| part.len() + 1 >= stdout.len()),
        moved,
        outputs: &outputs.iter().map(|name| redactor.text(name)).collect::<Vec<_>>(),
        disk_full: failure::disk_is_full(&workspace.root),
    };
    let mut failure = seen.failure();
    let (mut pending_operations, mut outputs, mut resources) = (false, serde_json::json!({}), vec![]);
    match checkpoint {
        Some(Ok(checkpoint)) => {
            pending_operations = checkpoint.has_pending_operations();
            let shown = checkpoint.shown(std::fs::read(workspace.shown()).ok().as_deref());
            outputs = shown.outputs(redactor);
            resources = shown.applied(redactor);
        }
        Some(Err(e)) => {
            let broken = || Failure { reason: FailureReason::ApplyFailed, message: e.clone() };
            failure.get_or_insert_with(broken);
        }
        None => {
            let message = "the state has vanished; look at the resources before anything else".to_owned();
            failure.get_or_insert(Failure { reason: FailureReason::ApplyFailed, message });
        }
    }
    let mut text = format!("{}{stderr}\n", events.log);
    for resource in &failing {
        text.push_str(&format!("{} {}\n", resource.urn.as_deref().unwrap_or("error:"), resource.message));
    }
    if let Some(failure) = &failure {
        text.push_str(&format!("{}\n", failure.message));
    }
    let readable = state.filter(|s| moved && Checkpoint::parse(s).is_ok());
    ApplyOutcome {
        failure: failure.map(|f| Failure { message: redactor.text(&f.message), ..f }),
        failing,
        outputs,
        changes: events.changes,
        resources,
        state: readable,
        pending_operations,
        log: log(text, redactor),
        duration_ms: match end {
            End::Exited(exit) => duration(exit),
            End::Died(_) => 0,
        },
    }
}

/// An outcome as it may be kept where secrets of it are no more: nobody can tell what of it they are.
pub(crate) fn withheld(outcome: ApplyOutcome, lost: &[String]) -> ApplyOutcome {
    if lost.is_empty() {
        return outcome;
    }
    let why = format!(
        "withheld: secret {} changed while it ran, so nobody can tell any more where it stands in this",
        lost.join(", ")
    );
    ApplyOutcome {
        failure: outcome.failure.map(|failure| Failure { message: why.clone(), ..failure }),
        failing: outcome
            .failing
            .into_iter()
            .map(|resource| FailedResource { message: why.clone(), ..resource })
            .collect(),
        outputs: serde_json::json!({ "withheld": why }),
        resources: outcome
            .resources
            .into_iter()
            .map(|resource| AppliedResource { inputs: serde_json::Value::Null, ..resource })
            .collect(),
        log: format!("{why}\n").into_bytes(),
        ..outcome
    }
}
