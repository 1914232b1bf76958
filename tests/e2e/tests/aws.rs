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
