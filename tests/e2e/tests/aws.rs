//! The same promotions as functions: template.yaml deployed to an emulator, the real function binaries, real Pulumi,
//! a program of files. An event goes in at the bus; a subscriber of the bus sees what came of it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test ends by panicking, and makes its own ids"
)]

use std::sync::LazyLock;

use runtime_cloud_e2e::{Deployed, Repository, STACK, poll, until};
use serde_json::{Value, json};
use uuid::Uuid;

/// A stack, deployed once for all cases; each has environments of its own.
struct Stack(Deployed);

impl std::ops::Deref for Stack {
    type Target = Deployed;
    fn deref(&self) -> &Deployed {
        &self.0
    }
}

static DEPLOYED: LazyLock<Stack> = LazyLock::new(Stack::deploy);

const TWO_FILES: &str = "config: {greeting: {type: string, default: hello}}
resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: '${greeting}'}}
  b: {type: 'local:index:File', properties: {path: b.txt, content: b}}
outputs: {greeting: '${greeting}'}
";

impl Stack {
    fn deploy() -> Stack {
        let stack = Stack(Deployed::new(&[]));
        stack.subscribe();
        stack
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

    fn environment(&self, name: &str, class: &str) {
        let data = json!({"environmentId": name, "tenantId": "acme", "projectId": "shop", "class": class,
                          "region": "here", "targets": [{"kind": "local", "reference": "this-machine"}]});
        self.send("control.environments.v1.environment-created", data);
        until("the environment", || {
            self.rows("Environments")
                .iter()
                .any(|e| e["environment"] == json!(name) || e.to_string().contains(name))
        });
    }

    fn promotion(environment: &str, repository: &Repository, commit: &str, expired: bool) -> Value {
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

    fn promote(&self, promotion: &Value) {
        self.send("delivery.promotions.v1.promotion-approved", promotion.clone());
    }

    fn runs(&self, environment: &str) -> Vec<Value> {
        let all = self.rows("ProvisioningRuns");
        all.into_iter().filter(|r| r["environment"] == json!(environment)).collect()
    }

    /// The run of an environment that is in that state.
    fn run_in(&self, environment: &str, state: &str) -> Value {
        poll(&format!("a run of {environment} to be {state}"), || {
            let runs = self.runs(environment);
            assert!(!runs.iter().any(|r| is(r, "Failed") && state != "Failed"), "{runs:#?}");
            runs.into_iter().find(|r| is(r, state))
        })
    }

    /// Events of a run that the subscriber has received, by their topics' last part; it deletes none.
    fn told(&self, run: &str) -> Vec<(String, Value)> {
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
                    told.push((name, event["detail"]["data"].clone()));
                }
            }
        }
        told
    }
}

fn is(run: &Value, state: &str) -> bool {
    run["state"] == json!(state) || run["state"]["state"] == json!(state) || run["state"].get(state).is_some()
}

fn id(run: &Value) -> String {
    run["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_promotion_is_planned_applied_and_told_to_a_subscriber() {
    let stack = &*DEPLOYED;
    let repository = Repository::new();
    let commit = repository.program(TWO_FILES);
    stack.environment("dev", "development");
    let promotion = Stack::promotion("dev", &repository, &commit, false);
    // Whatever comes twice is one.
    stack.promote(&promotion);
    stack.promote(&promotion);
    let run = stack.run_in("dev", "Applied");
    assert_eq!(stack.runs("dev").len(), 1);

    let receipts = format!("{STACK}-receipts-000000000000-us-east-1");
    for record in ["plan", "apply"] {
        let digest = run[record]["link"]["receipt"].as_str().expect("a receipt's digest");
        let bytes = stack.emulator.object(&receipts, &format!("blobs/{digest}")).expect("the receipt");
        let receipt: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(receipt["provisioningRunId"], run["id"]);
    }
    until("the subscriber to have heard of the apply", || {
        stack.told(&id(&run)).iter().any(|(name, data)| {
            name == "provisioning-applied" && data["outputs"] == json!({"greeting": "hello"})
        })
    });
}

#[test]
fn a_plan_in_production_waits_for_its_approval_and_is_applied_with_it() {
    let stack = &*DEPLOYED;
    let repository = Repository::new();
    let commit = repository.program(TWO_FILES);
    stack.environment("prod", "production");
    stack.promote(&Stack::promotion("prod", &repository, &commit, true));
    let waits = stack.run_in("prod", "AwaitingApproval");
    let approval = |by: &str, digest: &Value| {
        json!({"approvalId": Uuid::new_v4(), "tenantId": "acme", "provisioningRunId": waits["id"], "planDigest": digest,
               "decision": "approved", "decidedBy": by, "decidedAt": "2026-11-01T00:00:00Z"})
    };
    // Another plan's approval, and its requester's own, are refused and put aside with the reason.
    stack.send("control.approvals.v1.approval-decided", approval("zoe", &json!("0".repeat(64))));
    stack.send("control.approvals.v1.approval-decided", approval("ben", &waits["plan"]["plan_digest"]));
    until("both refusals", || stack.dead("ApplyApproval").len() == 2);
    assert!(is(&stack.runs("prod")[0], "AwaitingApproval"));

    stack.send("control.approvals.v1.approval-decided", approval("zoe", &waits["plan"]["plan_digest"]));
    let applied = stack.run_in("prod", "Applied");
    assert_eq!(applied["id"], waits["id"]);
}

#[test]
fn what_is_no_event_is_put_aside_with_its_reason() {
    let stack = &*DEPLOYED;
    let topic = "delivery.promotions.v1.promotion-approved";
    stack.put(topic, "{\"no\": \"event\"}");
    stack.send(topic, json!({"promotionId": "not-an-id"}));
    let dead = poll("both dead letters", || {
        let dead = stack.dead("ProvisionPromotion");
        (dead.len() == 2).then_some(dead)
    });
    for message in dead {
        let reason = &message["MessageAttributes"]["reason"]["StringValue"];
        assert!(reason.as_str().is_some_and(|r| r.len() > 20), "{message}");
    }
}
