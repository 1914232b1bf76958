//! The same promotions as functions: template.yaml deployed to an emulator, the real function binaries, real Pulumi,
//! a program of files. An event goes in at the bus; a subscriber of the bus sees what came of it.
#![expect(clippy::disallowed_methods, reason = "a test makes its own ids")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use emulator::Emulator;
use runtime_cloud_e2e::stack::{STACK, Stack, TWO_FILES, id, is};
use runtime_cloud_e2e::{Repository, poll, until};
use serde_json::{Value, json};
use uuid::Uuid;

/// Deployed once for all cases.
static DEPLOYED: LazyLock<Stack> = LazyLock::new(|| Stack::deploy(Emulator::start()));

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
fn a_trace_goes_on_from_event_to_event() {
    let stack = &*DEPLOYED;
    let repository = Repository::new();
    let commit = repository.program(TWO_FILES);
    stack.environment("traced", "development");
    let topic = "delivery.promotions.v1.promotion-approved";
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let event = json!({"specversion": "1.0", "id": Uuid::new_v4(), "source": "/factory", "type": topic,
                       "time": "2026-01-01T00:00:00Z", "traceparent": format!("00-{trace}-b7ad6b7169203331-01"),
                       "data": Stack::promotion("traced", &repository, &commit, false)});
    stack.put(topic, &event.to_string());
    let run = id(&stack.run_in("traced", "Applied"));
    // Others look at the same queue: what one look doesn't see the next one does.
    let mut told = BTreeMap::new();
    until("both events", || {
        told.extend(stack.envelopes(&run));
        told.len() == 2
    });
    let parents: Vec<&str> = told.values().filter_map(|e| e["traceparent"].as_str()).collect();
    assert_eq!(parents.len(), 2, "{told:?}");
    assert!(parents.iter().all(|p| p.starts_with(&format!("00-{trace}-"))), "{parents:?}");
    assert_ne!(parents[0], parents[1]);
}

#[test]
fn an_approved_plan_under_which_configuration_moved_is_refused_as_stale() {
    let stack = &*DEPLOYED;
    let repository = Repository::new();
    let commit = repository.program(TWO_FILES);
    let configure = |value: &str| {
        let name = format!("/{STACK}/acme/greeting");
        let set =
            ["ssm", "put-parameter", "--overwrite", "--type", "String", "--name", &name, "--value", value];
        stack.emulator.aws(&set);
    };
    configure("hello");
    stack.environment("stale", "production");
    let mut promotion = Stack::promotion("stale", &repository, &commit, true);
    promotion["configRefs"] = json!([{"key": "greeting", "ref": "greeting"}]);
    stack.promote(&promotion);
    let waits = stack.run_in("stale", "AwaitingApproval");
    configure("goodbye");
    let approval = json!({"approvalId": Uuid::new_v4(), "tenantId": "acme", "provisioningRunId": waits["id"],
                          "planDigest": waits["plan"]["plan_digest"], "decision": "approved", "decidedBy": "zoe",
                          "decidedAt": "2026-11-01T00:00:00Z"});
    stack.send("control.approvals.v1.approval-decided", approval);
    let failed = stack.run_in("stale", "Failed");
    assert!(
        failed.to_string().contains("PlanStale") || failed.to_string().contains("plan-stale"),
        "{failed:#}"
    );
    assert!(failed.to_string().contains("nothing was touched"), "{failed:#}");
    // Pulumi was never asked.
    let jobs = format!("{STACK}-jobs-000000000000-us-east-1");
    let ordered = format!("jobs/acme/stale/{}/apply-1/in/ordered.json", id(&failed));
    assert!(stack.emulator.object(&jobs, &ordered).is_none());
    until("the subscriber to have heard of it", || {
        stack
            .told(&id(&failed))
            .iter()
            .any(|(name, data)| name == "provisioning-failed" && data.to_string().contains("plan-stale"))
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
