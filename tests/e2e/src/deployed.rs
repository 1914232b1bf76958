//! template.yaml deployed to an emulator, with the real function binaries.

use std::process::{Command, Stdio};

use emulator::Emulator;
use serde_json::{Value, json};
use uuid::Uuid;

/// The stack's name.
pub const STACK: &str = "rc";

/// A deployed stack; it ends with the test.
pub struct Deployed {
    /// Where.
    pub emulator: Emulator,
    outputs: String,
}

#[expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test whose stack can't be deployed or asked has failed, and it makes its own ids"
)]
impl Deployed {
    /// Deploys, with these parameters of template.yaml, as NAME=VALUE.
    pub fn new(parameters: &[String]) -> Deployed {
        let emulator = Emulator::start();
        let xtask = std::env::var("RUNTIME_CLOUD_TEST_XTASK").expect("`cargo xtask test` names itself");
        let deployed = Command::new(xtask)
            .args(["deploy", "--development", "--stack", STACK, "--endpoint", &emulator.url()])
            .args(parameters.iter().flat_map(|p| ["--parameter", p]))
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert!(deployed.status.success(), "{}", String::from_utf8_lossy(&deployed.stderr));
        Deployed { emulator, outputs: String::from_utf8(deployed.stdout).unwrap() }
    }

    /// What the stack says of itself.
    pub fn output(&self, name: &str) -> String {
        let value = self.outputs.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
        value.expect("the stack has that output").to_owned()
    }

    /// Sends an event to the bus.
    pub fn send(&self, topic: &str, data: Value) {
        let event = json!({"specversion": "1.0", "id": Uuid::new_v4(), "source": "/factory", "type": topic,
                           "time": "2026-01-01T00:00:00Z", "data": data});
        self.put(topic, &event.to_string());
    }

    /// Sends anything to the bus.
    pub fn put(&self, topic: &str, detail: &str) {
        let entry =
            json!({"Source": "/factory", "DetailType": topic, "Detail": detail, "EventBusName": STACK});
        let sent = self.emulator.events("PutEvents", &json!({"Entries": [entry]}));
        assert_eq!(sent["FailedEntryCount"], 0, "{sent}");
    }

    /// Every row of a table, as states.
    pub fn rows(&self, table: &str) -> Vec<Value> {
        let scan = json!({"TableName": format!("{STACK}-{table}"), "ConsistentRead": true});
        let found = self.emulator.dynamodb("Scan", &scan);
        let body = |item: &Value| serde_json::from_str(item["body"]["S"].as_str()?).ok();
        found["Items"].as_array().into_iter().flatten().filter_map(body).collect()
    }

    /// Dead letters of a queue; they stay.
    pub fn dead(&self, queue: &str) -> Vec<Value> {
        let url = format!("{}{STACK}-{queue}-dead", self.emulator.queue_url_prefix());
        let asked = json!({"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0,
                           "MessageAttributeNames": ["All"]});
        self.emulator.sqs("ReceiveMessage", &asked)["Messages"].as_array().cloned().unwrap_or_default()
    }
}
