//! What `pulumi refresh --preview-only --json` found: where the world differs from the state that a plan rests on.

use domain::receipt::{RefreshCheck, RefreshedResource};
use process::{Exit, Status};

use crate::preview::{self, Preview};
use crate::redact::Redactor;
use crate::steps::REFRESH;

/// None where nothing was looked at: a stack without a state.
pub(crate) fn check(exit: &Exit, stdout: &[u8], stderr: &str, redactor: &Redactor) -> Option<RefreshCheck> {
    let step = exit.step(REFRESH)?;
    let unknown = |why: String| RefreshCheck::Unknown { why: preview::short(&redactor.text(&why)) };
    Some(match (&step.status, preview::parse(stdout)) {
        (_, _) if step.timed_out => unknown("it took too long".to_owned()),
        (Status::Code(0), Some(found)) => differences(&found, redactor).map_or_else(unknown, |differing| {
            let looked_at = found.steps.iter().filter(|s| !is_stack(s)).count();
            RefreshCheck::Looked { looked_at: u32::try_from(looked_at).unwrap_or(u32::MAX), differing }
        }),
        (_, found) => {
            let mut why: Vec<String> =
                found.iter().flat_map(|f| f.errors(redactor)).map(|(_, message)| message).collect();
            why.dedup();
            if why.is_empty() {
                why.push(stderr.to_owned());
            }
            unknown(why.join("; "))
        }
    })
}

fn is_stack(step: &preview::Step) -> bool {
    step.urn.contains("::pulumi:pulumi:Stack::")
}

fn differences(found: &Preview, redactor: &Redactor) -> Result<Vec<RefreshedResource>, String> {
    let mut differing = vec![];
    for step in found.steps.iter().filter(|s| !is_stack(s)) {
        let gone = match step.op.as_str() {
            "same" | "refresh" => continue,
            "update" => false,
            "delete" => true,
            other => {
                return Err(format!("Pulumi found an operation {other:?} that this version doesn't know"));
            }
        };
        let changed: Vec<String> =
            step.detailed_diff.iter().flatten().map(|(path, _)| redactor.text(path)).collect();
        // A difference in outputs alone is none.
        if gone || !changed.is_empty() {
            differing.push(RefreshedResource { urn: redactor.text(&step.urn), gone, changed });
        }
    }
    differing.sort();
    Ok(differing)
}
