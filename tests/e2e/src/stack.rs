//! The whole system as functions: template.yaml deployed to an emulator, the real function binaries, real Pulumi.

use std::process::{Command, Stdio};

use emulator::Emulator;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::poll::{poll_with, until};
use crate::repository::Repository;

/// Its name.
pub const STACK: &str = "rc";

/// template.yaml in an emulator of its own, with real functions; each case has environments of its own.
pub struct Stack {
    /// The emulator.
    pub emulator: Emulator,
    /// What deploying it has printed.
    outputs: String,
}

/// A program of two files.
pub const TWO_FILES: &str = "config: {greeting: {type: string, default: hello}}
resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: '${greeting}'}}
  b: {type: 'local:index:File', properties: {path: b.txt, content: b}}
outputs: {greeting: '${greeting}'}
";

#[expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test whose stack can't be driven has failed; it makes its own ids"
)]
impl Stack {
    /// Deploys it, to an emulator that has nothing in it.
    pub fn deploy(emulator: Emulator) -> Stack {
        Stack::deploy_with(emulator, &[])
    }

    /// The same, with further parameters of the template.
    pub fn deploy_with(emulator: Emulator, parameters: &[&str]) -> Stack {
        let deployed = xtask()
            .args(["deploy", "--development", "--stack", STACK, "--endpoint", &emulator.url()])
            .args(parameters.iter().flat_map(|p| ["--parameter", p]))
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert!(deployed.status.success(), "{}", String::from_utf8_lossy(&deployed.stderr));
        let stack = Stack { emulator, outputs: String::from_utf8(deployed.stdout).unwrap() };
        stack.subscribe();
        stack
    }

    /// What the stack says of itself.
    pub fn output(&self, name: &str) -> String {
        let value = self.outputs.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
        value.expect("the stack has that output").to_owned()
    }

    /// Somebody else's queue, filled by a rule of their own.
    fn subscribe(&self) {
        self.emulator.sqs("CreateQueue", &json!({"QueueName": "subscriber"}));
        let pattern = json!({"source": [{"prefix": "/runtime-cloud/"}]}).to_string();
        let rule = json!({"Name": "subscriber", "EventBusName": STACK, "EventPattern": pattern});
        self.emulator.events("PutRule", &rule);
        let target = json!({"Id": "q", "Arn": "arn:aws:sqs:us-east-1:000000000000:subscriber"});
        let targets = json!({"Rule": "subscriber", "EventBusName": STACK, "Targets": [target]});
        self.emulator.events("PutTargets", &targets);
    }

    /// Sends an event of a topic to the bus.
    pub fn send(&self, topic: &str, data: Value) {
        let event = json!({"specversion": "1.0", "id": Uuid::new_v4(), "source": "/factory", "type": topic,
                           "time": "2026-01-01T00:00:00Z", "data": data});
        self.put(topic, &event.to_string());
    }

    /// Puts any text on the bus.
    pub fn put(&self, topic: &str, detail: &str) {
        let entry =
            json!({"Source": "/factory", "DetailType": topic, "Detail": detail, "EventBusName": STACK});
        let sent = self.emulator.events("PutEvents", &json!({"Entries": [entry]}));
        assert_eq!(sent["FailedEntryCount"], 0, "{sent}");
    }

    /// Makes an environment.
    pub fn environment(&self, name: &str, class: &str) {
        let data = json!({"environmentId": name, "tenantId": "acme", "projectId": "shop", "class": class,
                          "region": "here", "targets": [{"kind": "local", "reference": "this-machine"}]});
        self.send("control.environments.v1.environment-created", data);
        until("the environment", || {
            self.rows("Environments")
                .iter()
                .any(|e| e["environment"] == json!(name) || e.to_string().contains(name))
        });
    }

    /// A promotion, whose approval may have expired.
    pub fn promotion(environment: &str, repository: &Repository, commit: &str, expired: bool) -> Value {
        let mut approval =
            json!({"approvalId": Uuid::new_v4(), "decidedBy": "ben", "decidedAt": "2026-01-01T00:00:00Z"});
        if expired {
            approval["expiresAt"] = json!("2026-01-02T00:00:00Z");
        }
        json!({"promotionId": Uuid::new_v4(), "tenantId": "acme", "projectId": "shop", "environmentId": environment,
               "releaseId": Uuid::new_v4(), "approval": approval,
               "program": {"repository": repository.path(), "path": "app", "commit": commit},
               "configRefs": [], "secretRefs": []})
    }

    /// Sends a promotion.
    pub fn promote(&self, promotion: &Value) {
        self.send("delivery.promotions.v1.promotion-approved", promotion.clone());
    }

    /// Every row of a table, as states.
    pub fn rows(&self, table: &str) -> Vec<Value> {
        let scan = json!({"TableName": format!("{STACK}-{table}"), "ConsistentRead": true});
        let found = self.emulator.dynamodb("Scan", &scan);
        let body = |item: &Value| serde_json::from_str(item["body"]["S"].as_str()?).ok();
        found["Items"].as_array().into_iter().flatten().filter_map(body).collect()
    }

    /// The runs of an environment.
    pub fn runs(&self, environment: &str) -> Vec<Value> {
        let all = self.rows("ProvisioningRuns");
        all.into_iter().filter(|r| r["environment"] == json!(environment)).collect()
    }

    /// The run of an environment that is in that state.
    pub fn run_in(&self, environment: &str, state: &str) -> Value {
        let said = || {
            let log = self.emulator.log();
            let lines: Vec<&str> = log.lines().collect();
            let last: String =
                lines.iter().skip(lines.len().saturating_sub(200)).map(|line| format!("{line}\n")).collect();
            format!("{:#?}\n{last}", self.runs(environment))
        };
        poll_with(&format!("a run of {environment} to be {state}"), said, || {
            let runs = self.runs(environment);
            assert!(!runs.iter().any(|r| is(r, "Failed") && state != "Failed"), "{runs:#?}");
            runs.into_iter().find(|r| is(r, state))
        })
    }

    /// Dead letters of a queue, by its name in the account: `Planner.fifo`.
    pub fn dead(&self, queue: &str) -> Vec<Value> {
        let dead = match queue.strip_suffix(".fifo") {
            Some(worker) => format!("{worker}-dead.fifo"),
            None => format!("{queue}-dead"),
        };
        let url = format!("{}{STACK}-{dead}", self.emulator.queue_url_prefix());
        let asked = json!({"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0,
                           "MessageAttributeNames": ["All"]});
        self.emulator.sqs("ReceiveMessage", &asked)["Messages"].as_array().cloned().unwrap_or_default()
    }

    /// Events of a run that the subscriber has received, by their topics' last part; it deletes none.
    pub fn told(&self, run: &str) -> Vec<(String, Value)> {
        self.envelopes(run).into_iter().map(|(name, envelope)| (name, envelope["data"].clone())).collect()
    }

    /// The same as whole CloudEvents.
    pub fn envelopes(&self, run: &str) -> Vec<(String, Value)> {
        let url = format!("{}subscriber", self.emulator.queue_url_prefix());
        let mut told = vec![];
        for _ in 0..20 {
            let asked = json!({"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 1});
            let some = self.emulator.sqs("ReceiveMessage", &asked);
            let Some(some) = some["Messages"].as_array() else { break };
            for message in some {
                let event: Value = serde_json::from_str(message["Body"].as_str().unwrap()).unwrap();
                let topic = event["detail-type"].as_str().unwrap_or_default();
                let about = event["detail"]["data"]["provisioningRunId"] == json!(run);
                let name = topic.rsplit('.').next().unwrap_or_default().to_owned();
                if about && !told.iter().any(|(n, _)| *n == name) {
                    told.push((name, event["detail"].clone()));
                }
            }
        }
        told
    }
}

/// The tasks of this workspace.
#[expect(clippy::expect_used, clippy::disallowed_methods, reason = "a test without it has failed")]
pub fn xtask() -> Command {
    Command::new(std::env::var("RUNTIME_CLOUD_TEST_XTASK").expect("`cargo xtask test` names itself"))
}

/// Whether a run is in a state.
#[expect(clippy::indexing_slicing, reason = "a field that isn't there is null")]
pub fn is(run: &Value, state: &str) -> bool {
    run["state"] == json!(state) || run["state"]["state"] == json!(state) || run["state"].get(state).is_some()
}

/// Its id.
#[expect(clippy::unwrap_used, reason = "a run has one")]
pub fn id(run: &Value) -> String {
    run["id"].as_str().unwrap().to_owned()
}
