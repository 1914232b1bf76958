//! Why an apply failed, out of everything that its session left: never without a reason where something says one.

use std::path::Path;

use domain::provisioning_run::{Failure, FailureReason};
use domain::receipt::FailedResource;
use process::{EndedBy, Exit, Status};
use serde_json::Value;

use crate::collect::{End, stopped, was_killed};
use crate::preview::short;

/// What is known of a session that has ended; all texts are clean.
pub(crate) struct Seen<'a> {
    /// How it ended.
    pub end: &'a End,
    /// The result that Pulumi's events name.
    pub result: Option<&'a str>,
    /// What failed.
    pub failing: &'a [FailedResource],
    /// Its error output.
    pub stderr: &'a str,
    /// What it printed that is no JSON.
    pub stdout: &'a str,
    /// Whether its preview was printed whole, and no event after it.
    pub only_previewed: bool,
    /// Whether the state is another one now.
    pub moved: bool,
    /// Names of the stack's outputs that the plan sets.
    pub outputs: &'a [String],
    /// Whether the disk is full now.
    pub disk_full: bool,
}

const FULL: [&str; 3] = ["no space left on device", "disk quota exceeded", "enospc"];

impl Seen<'_> {
    /// Why it failed; None where it didn't.
    pub fn failure(&self) -> Option<Failure> {
        let touched = if self.moved { "some resources were changed" } else { "the state was not changed" };
        let next = "see the receipt, then plan again";
        let full = if self.disk_full || FULL.iter().any(|f| self.says(f)) {
            "; the disk is full: make room first"
        } else {
            ""
        };
        let (reason, why) = self.reason()?;
        Some(Failure { reason, message: format!("{why}{full}; {touched}; {next}") })
    }

    fn reason(&self) -> Option<(FailureReason, String)> {
        let exit = match self.end {
            End::Died(proof) => {
                return Some((FailureReason::Interrupted, format!("whoever ran it died ({proof})")));
            }
            End::Exited(exit) => exit,
        };
        if let Some((reason, why)) = stopped(exit) {
            let failed = reason == FailureReason::PlanFailed;
            return Some((if failed { FailureReason::ApplyFailed } else { reason }, why));
        }
        if exit.ended_by == EndedBy::Completed && self.result.is_none_or(|r| r == "succeeded") {
            return None;
        }
        if was_killed(exit, "up") {
            return Some((FailureReason::Interrupted, "Pulumi was killed".to_owned()));
        }
        if self.says("update canceled") || self.says("update cancelled") {
            return Some((FailureReason::Interrupted, "Pulumi was told to stop".to_owned()));
        }
        let said = self.said();
        let stale = ["violates plan", "not allowed by the plan", "plan constraints", "no plan for resource"];
        if !self.moved && stale.iter().any(|s| self.says(s)) {
            let why = said.unwrap_or_default();
            let why = format!("what Pulumi would do now is not what was planned: {why}");
            return Some((FailureReason::PlanStale, why));
        }
        // Pulumi holds the outputs of the stack against the plan too, and says nothing where they differ.
        let silent = said.is_none() && exit.step("up").is_some_and(|s| s.status == Status::Code(1));
        if silent && !self.disk_full && (self.only_previewed || self.result.is_some()) {
            let which = match self.outputs {
                [] => "an output of the stack".to_owned(),
                names => format!("an output of the stack ({})", short(&names.join(", "))),
            };
            let why = format!("{which} is not what was planned");
            let reason = if self.moved { FailureReason::ApplyFailed } else { FailureReason::PlanStale };
            return Some((reason, why));
        }
        Some((FailureReason::ApplyFailed, said.unwrap_or_else(|| ended(exit))))
    }

    fn says(&self, what: &str) -> bool {
        let texts = [self.stderr, self.stdout].into_iter();
        let mut texts = texts.chain(self.failing.iter().map(|f| f.message.as_str()));
        texts.any(|text| text.to_lowercase().contains(what))
    }

    /// The first of them that says something.
    fn said(&self) -> Option<String> {
        let name = |f: &FailedResource| match &f.urn {
            Some(urn) if f.message.is_empty() => format!("{urn} failed"),
            Some(urn) => format!("{urn}: {}", f.message),
            None => f.message.clone(),
        };
        let named = self.failing.iter().map(name).collect::<Vec<_>>().join("; ");
        let said = [named.as_str(), self.stderr, self.stdout].into_iter().map(str::trim);
        said.into_iter().find(|text| !text.is_empty()).map(short)
    }
}

fn ended(exit: &Exit) -> String {
    match exit.step("up").map(|s| s.status) {
        Some(Status::Code(code)) => format!("Pulumi ended with code {code} and said nothing"),
        Some(Status::Signal(signal)) => format!("signal {signal} ended Pulumi"),
        None => "Pulumi was not started".to_owned(),
    }
}

/// Names of the stack's outputs that a plan file sets.
pub(crate) fn planned_outputs(plan_file: &[u8]) -> Vec<String> {
    let Ok(plan) = serde_json::from_slice::<Value>(plan_file) else { return vec![] };
    let plans = plan.get("resourcePlans").and_then(Value::as_object);
    let stack = plans.into_iter().flatten().find(|(urn, _)| urn.contains("::pulumi:pulumi:Stack::"));
    let diff = stack.and_then(|(_, plan)| plan.pointer("/goal/outputDiff"));
    let sets = ["adds", "updates", "deletes"].map(|kind| diff.and_then(|d| d.get(kind)));
    let mut names = vec![];
    for set in sets.into_iter().flatten() {
        match set {
            Value::Object(map) => names.extend(map.keys().cloned()),
            Value::Array(items) => names.extend(items.iter().filter_map(Value::as_str).map(str::to_owned)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    names
}

/// Whether nothing more can be written below a folder.
pub(crate) fn disk_is_full(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| {
        let no_inodes = disk.f_files > 0 && disk.f_favail == 0;
        no_inodes || disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST
    })
}

/// Less free bytes hold no state file.
const LEAST: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use process::StepExit;

    fn failed(code: i32) -> End {
        let up = StepExit {
            name: "up".to_owned(),
            status: Status::Code(code),
            started_unix_ms: 0,
            ended_unix_ms: 1,
            timed_out: false,
        };
        End::Exited(Exit {
            steps: vec![up],
            ended_by: EndedBy::StepFailed { name: "up".to_owned() },
            started_unix_ms: 0,
            ended_unix_ms: 1,
            killed: false,
            survivors: vec![],
        })
    }

    fn seen(end: &End) -> Seen<'_> {
        Seen {
            end,
            result: None,
            failing: &[],
            stderr: "",
            stdout: "",
            only_previewed: false,
            moved: false,
            outputs: &[],
            disk_full: false,
        }
    }

    fn failure(seen: &Seen<'_>) -> (FailureReason, String) {
        let failure = seen.failure().unwrap();
        (failure.reason, failure.message)
    }

    #[test]
    fn outputs_that_differ_from_the_plan_make_it_stale_though_pulumi_says_nothing() {
        let end = failed(1);
        let outputs = ["url".to_owned()];
        let silent = Seen { only_previewed: true, outputs: &outputs, ..seen(&end) };
        let (reason, message) = failure(&silent);
        assert_eq!(reason, FailureReason::PlanStale);
        assert!(message.contains("an output of the stack (url) is not what was planned"), "{message}");
        let moved = Seen { moved: true, result: Some("failed"), ..silent };
        assert_eq!(failure(&moved).0, FailureReason::ApplyFailed);
    }

    #[test]
    fn whatever_says_something_is_the_reason() {
        let end = failed(255);
        let errors = Seen { stderr: "error: the lock is held", ..seen(&end) };
        assert!(failure(&errors).1.contains("the lock is held"));
        let printed = Seen { stdout: "panic: nil map", ..seen(&end) };
        assert!(failure(&printed).1.contains("panic: nil map"));
        assert!(failure(&seen(&end)).1.contains("ended with code 255"));
        let resource = [FailedResource { urn: Some("urn:a".to_owned()), message: String::new() }];
        assert!(failure(&Seen { failing: &resource, ..seen(&end) }).1.contains("urn:a failed"));
    }

    #[test]
    fn a_full_disk_is_named() {
        let end = failed(255);
        let resource = [FailedResource { urn: None, message: "could not save".to_owned() }];
        let stderr = "write state.json: No space left on device";
        for seen in [
            Seen { failing: &resource, stderr, moved: true, ..seen(&end) },
            Seen { disk_full: true, only_previewed: true, ..seen(&end) },
        ] {
            let (reason, message) = failure(&seen);
            assert!(
                reason == FailureReason::ApplyFailed && message.contains("the disk is full"),
                "{message}"
            );
        }
    }

    #[test]
    fn the_outputs_of_a_plan_file_are_named() {
        let plan = br#"{"resourcePlans": {"urn:pulumi:s::app::pulumi:pulumi:Stack::app-s":
            {"goal": {"outputDiff": {"adds": {"a": 1}, "deletes": ["b"]}}}}}"#;
        assert_eq!(planned_outputs(plan), ["a", "b"]);
    }
}
