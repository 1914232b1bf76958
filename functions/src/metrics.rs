//! Figures as CloudWatch reads them from a log line (embedded metric format).

use std::io::Write;
use std::time::Duration;

use ports::Clock;
use serde_json::json;

use crate::door::SystemClock;

/// The namespace of all of them.
const NAMESPACE: &str = "RuntimeCloud";

/// One message was handled: what became of it, and how long it took.
pub fn handled(queue: &str, outcome: &str, took: Duration) {
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    figures(
        &[("Queue", queue), ("Outcome", outcome)],
        &[("Messages", "Count", 1), ("Duration", "Milliseconds", took)],
    );
}

/// A tick of RunWatch: how many environments have runs that somebody has to look at.
pub fn watched(report: &serde_json::Value) {
    let count = |name: &str| report.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
    figures(
        &[],
        &[
            ("DueEnvironments", "Count", count("environments")),
            ("ClosedEnvironments", "Count", count("closed")),
        ],
    );
}

/// A due run was found applying for longer than it may.
pub fn late(report: &serde_json::Value) {
    if let Some(late) = report.get("late").and_then(serde_json::Value::as_u64) {
        figures(&[], &[("LateApplies", "Count", late)]);
    }
}

/// An event left, of that topic.
pub fn told(topic: &str) {
    figures(&[("Topic", topic)], &[("Events", "Count", 1)]);
}

/// Writes figures with their dimensions.
fn figures(dimensions: &[(&str, &str)], figures: &[(&str, &str, u64)]) {
    let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
    let metrics: Vec<_> = figures.iter().map(|(name, unit, _)| json!({"Name": name, "Unit": unit})).collect();
    let mut line = json!({
        "_aws": {"Timestamp": SystemClock.now().timestamp_millis(), "CloudWatchMetrics": [{
            "Namespace": NAMESPACE, "Dimensions": [names], "Metrics": metrics,
        }]},
    });
    if let Some(line) = line.as_object_mut() {
        line.extend(dimensions.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        line.extend(figures.iter().map(|(name, _, value)| ((*name).to_owned(), json!(value))));
    }
    // A figure that can't be written is missing from a picture, and nothing else.
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}
