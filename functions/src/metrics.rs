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
    let now = SystemClock.now().timestamp_millis();
    let line = json!({
        "_aws": {"Timestamp": now, "CloudWatchMetrics": [{
            "Namespace": NAMESPACE,
            "Dimensions": [["Queue", "Outcome"]],
            "Metrics": [{"Name": "Messages", "Unit": "Count"}, {"Name": "Duration", "Unit": "Milliseconds"}],
        }]},
        "Queue": queue,
        "Outcome": outcome,
        "Messages": 1,
        "Duration": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    });
    // A figure that can't be written is missing from a picture, and nothing else.
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}
