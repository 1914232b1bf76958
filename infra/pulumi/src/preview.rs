//! The answer of `pulumi preview --json`: steps, diagnostics, counts.

use std::collections::BTreeMap;

use domain::Digest;
use domain::plan::{PlanStep, StepOp};
use serde::Deserialize;
use serde_json::Value;

use crate::redact::Redactor;
use crate::step_values;

/// What Pulumi printed.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Preview {
    #[serde(default)]
    pub steps: Vec<Step>,
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    #[serde(default, rename = "changeSummary")]
    pub change_summary: BTreeMap<String, u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    pub op: String,
    pub urn: String,
    #[serde(default, rename = "oldState")]
    pub old: Option<Value>,
    #[serde(default, rename = "newState")]
    pub new: Option<Value>,
    #[serde(default, rename = "replaceReasons")]
    pub replace_reasons: Option<Value>,
    #[serde(default, rename = "detailedDiff")]
    pub detailed_diff: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Diagnostic {
    #[serde(default)]
    pub urn: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub severity: String,
}

/// The steps of a plan, compared and counted.
#[derive(Debug)]
pub(crate) struct Steps {
    pub steps: Vec<PlanStep>,
    pub digest: Digest,
    pub unchanged: u32,
}

/// Parses; None where Pulumi printed no object, as it does for early errors.
pub(crate) fn parse(stdout: &[u8]) -> Option<Preview> {
    serde_json::from_slice(stdout).ok()
}

impl Preview {
    /// The steps, sorted by URN, with the digest that compares two plans: over operations with old and new values,
    /// without what differs between two builds of the same plan.
    pub(crate) fn steps(&self, redactor: &Redactor) -> Result<Steps, String> {
        let mut steps = vec![];
        let mut compared = vec![];
        for step in &self.steps {
            let Some(op) = op(&step.op)? else { continue };
            let state = step.new.as_ref().or(step.old.as_ref());
            let resource_type = state.and_then(|s| s.get("type")).and_then(Value::as_str).unwrap_or_default();
            // The stack itself is made and changed along with everything; it is no resource of anybody's.
            if resource_type == "pulumi:pulumi:Stack" {
                continue;
            }
            let changed: Vec<String> =
                step.detailed_diff.iter().flatten().map(|(path, _)| path.clone()).collect();
            compared.push((
                step.urn.clone(),
                step.op.clone(),
                step.old.as_ref().map(stable),
                step.new.as_ref().map(stable),
                step.replace_reasons.clone(),
            ));
            steps.push(PlanStep {
                urn: redactor.text(&step.urn),
                op,
                resource_type: resource_type.to_owned(),
                values: step_values::of(op, step.old.as_ref(), step.new.as_ref(), &changed, redactor),
                changed: changed.iter().map(|path| redactor.text(path)).collect(),
            });
        }
        steps.sort();
        compared.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let digest = Digest::of_json(&compared).map_err(|e| e.to_string())?;
        let same = self.change_summary.get("same").copied().unwrap_or_default();
        Ok(Steps { steps, digest, unchanged: same.saturating_sub(1) })
    }

    /// What went wrong, for a person: errors with their URN, then whatever the program printed.
    pub(crate) fn errors(&self, redactor: &Redactor) -> Vec<(Option<String>, String)> {
        let error = |d: &&Diagnostic| d.severity == "error" || d.severity == "info#err";
        self.diagnostics
            .iter()
            .filter(error)
            .map(|d| {
                let urn = Some(redactor.text(&d.urn)).filter(|u| !u.is_empty());
                (urn, clean(&d.message, redactor))
            })
            .filter(|(_, m)| !m.is_empty())
            .collect()
    }
}

/// Operations that do something; a replacement is one step.
fn op(text: &str) -> Result<Option<StepOp>, String> {
    match text {
        "create" => Ok(Some(StepOp::Create)),
        "update" => Ok(Some(StepOp::Update)),
        "delete" | "discard" => Ok(Some(StepOp::Delete)),
        "replace" | "import-replacement" => Ok(Some(StepOp::Replace)),
        "read" | "read-replacement" => Ok(Some(StepOp::Read)),
        "import" => Ok(Some(StepOp::Import)),
        // Parts of a replacement, counted with it; and what changes nothing.
        "create-replacement"
        | "delete-replaced"
        | "same"
        | "refresh"
        | "remove-pending-replace"
        | "discard-replaced" => Ok(None),
        other => Err(format!("Pulumi planned an operation {other:?} that this version doesn't know")),
    }
}

/// A state without what differs between two builds of the same plan: paths, traces, times, ciphertexts.
fn stable(state: &Value) -> Value {
    match state {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(k, _)| {
                    !matches!(
                        k.as_str(),
                        "sourcePosition" | "stackTrace" | "created" | "modified" | "seed" | "ciphertext"
                    )
                })
                .map(|(k, v)| (k.clone(), stable(v)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(stable).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => state.clone(),
    }
}

/// A message that fits an event. It must be clean before: a secret that is cut is found by nobody.
pub(crate) fn short(clean: &str) -> String {
    domain::bounds::cut(clean, 2000)
}

/// A message as it is kept. Secrets are taken out before anything else is, and after: what is taken out could have
/// stood inside one.
pub(crate) fn clean(message: &str, redactor: &Redactor) -> String {
    redactor.text(&tidy(&redactor.text(message)))
}

/// A message without colours and without its prefix.
fn tidy(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut letters = message.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            for end in letters.by_ref() {
                if end.is_ascii_alphabetic() {
                    break;
                }
            }
        } else if letter != '\r' {
            out.push(letter);
        }
    }
    out.trim().trim_start_matches("error: ").trim_end().to_owned()
}
