//! The event stream of `pulumi up --json`: what was done, what failed, and what it said.

use std::collections::BTreeMap;

use domain::receipt::FailedResource;
use serde::Deserialize;
use serde_json::Value;

use crate::preview::clean;
use crate::redact::Redactor;

/// What an apply's events say.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Counts by operation.
    pub changes: BTreeMap<String, u64>,
    /// `succeeded` or `failed`; None where the stream broke off.
    pub result: Option<String>,
    /// What failed.
    pub failing: Vec<FailedResource>,
    /// The stream in words.
    pub log: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EngineEvent {
    res_outputs_event: Option<Metadata>,
    res_op_failed_event: Option<Metadata>,
    diagnostic_event: Option<DiagnosticEvent>,
    summary_event: Option<SummaryEvent>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    metadata: Operation,
}

#[derive(Debug, Deserialize)]
struct Operation {
    op: String,
    urn: String,
}

#[derive(Debug, Deserialize)]
struct DiagnosticEvent {
    urn: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    severity: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SummaryEvent {
    #[serde(default)]
    resource_changes: BTreeMap<String, u64>,
    #[serde(default)]
    result: String,
    #[serde(default)]
    is_preview: bool,
}

/// Reads the stream. Lines that are no events (the preview's object, a line that broke off) are passed over.
pub(crate) fn parse(stdout: &[u8], redactor: &Redactor) -> Applied {
    let mut applied = Applied::default();
    let mut said: Vec<(Option<String>, String)> = vec![];
    let mut failed: Vec<String> = vec![];
    for line in stdout.split(|b| *b == b'\n') {
        if !line.starts_with(b"{\"sequence\"") {
            continue;
        }
        let Ok(event) = serde_json::from_slice::<EngineEvent>(line) else { continue };
        if let Some(Metadata { metadata }) = event.res_outputs_event {
            applied.log.push_str(&format!("{} {}\n", metadata.op, metadata.urn));
        }
        if let Some(Metadata { metadata }) = event.res_op_failed_event {
            applied.log.push_str(&format!("{} {} FAILED\n", metadata.op, metadata.urn));
            failed.push(metadata.urn);
        }
        if let Some(diagnostic) = event.diagnostic_event {
            let message = clean(&diagnostic.message, redactor);
            if diagnostic.severity == "debug" || message.is_empty() {
                continue;
            }
            let urn = diagnostic.urn.filter(|u| !u.is_empty());
            applied.log.push_str(&format!("{}: {message}\n", diagnostic.severity));
            if diagnostic.severity == "error" || diagnostic.severity == "info#err" {
                said.push((urn, message));
            }
        }
        if let Some(summary) = event.summary_event.filter(|s| !s.is_preview) {
            applied.changes = summary.resource_changes;
            applied.result = Some(summary.result).filter(|r| !r.is_empty());
        }
    }
    for urn in &failed {
        let message = said.iter().filter(|(u, _)| u.as_deref() == Some(urn)).map(|(_, m)| m.as_str());
        let message = message.collect::<Vec<_>>().join("; ");
        applied.failing.push(FailedResource { urn: Some(redactor.text(urn)), message });
    }
    if failed.is_empty() {
        let general = said.into_iter().filter(|(_, m)| !m.starts_with("update failed"));
        let failed = |(urn, message): (Option<String>, String)| FailedResource {
            urn: urn.map(|urn| redactor.text(&urn)),
            message,
        };
        applied.failing.extend(general.map(failed));
    }
    applied
}

/// The preview inside an apply, which Pulumi prints before the events: its errors say why nothing was applied.
pub(crate) fn preview_part(stdout: &[u8]) -> Option<&[u8]> {
    let end = find(stdout, b"\n{\"sequence\"").unwrap_or(stdout.len());
    let head = stdout.get(..end)?;
    let is_object = head.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    (is_object && serde_json::from_slice::<Value>(head).is_ok()).then_some(head)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|w| w == wanted)
}
