//! Production: what covers an apply, who may approve, and what becomes of a plan that is late.

use runtime_cloud_e2e::{HostProcess, Repository, until};
use serde_json::json;

const ONE: &str = "resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: one}}
";
const OTHER: &str = "resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: two}}
";
const GONE: &str = "resources:
  b: {type: 'local:index:File', properties: {path: b.txt, content: one}}
";

fn production() -> (HostProcess, Repository) {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(ONE);
    host.environment("prod", "production");
    (host, repository)
}

#[test]
fn a_promotions_approval_covers_its_apply_in_production() {
    let (host, repository) = production();
    let run = host.promote("prod", &repository, &[]);
    host.applied(&run);
    let authority = &host.receipt(&run, "apply")["authority"];
    assert_eq!((&authority["by"], &authority["decidedBy"]), (&json!("promotion-approval"), &json!("ada")));
    // The baseline waits for an approval of its plan meanwhile.
    until("the baseline to wait", || {
        host.runs().iter().any(|r| r["kind"] == "baseline" && r["state"] == "AwaitingApproval")
    });
}

#[test]
fn a_manual_plan_waits_for_another_person() {
    let (host, repository) = production();
    let run = host.plan("prod", &repository, &[]);
    let waiting = host.state(&run, &["AwaitingApproval"]);
    assert!(waiting["planSummary"]["approvalRequired"]["expiresAt"].is_string());
    let own = host.cli(&["approve", &run]);
    assert_eq!(own.code, 4, "{own:?}");
    assert!(own.err.contains("requested"), "{own:?}");
    let other_plan = "0".repeat(64);
    let wrong = host.cli(&["--as", "ben", "approve", &run, "--plan", &other_plan]);
    assert_eq!(wrong.code, 4, "{wrong:?}");
    assert_eq!(host.run(&run)["state"], "AwaitingApproval");
    assert_eq!(host.approve(&run).code, 0);
    host.applied(&run);
    // A repeated approval comes too late to mean anything.
    assert_eq!(host.approve(&run).code, 4);
    assert_eq!(host.left("provisioning-applied", &run).len(), 1);
    // Who approved can be seen afterwards, on the run and in its receipt.
    let (view, authority) = (host.run(&run), host.receipt(&run, "apply")["authority"].clone());
    assert_eq!((&authority["by"], &authority["decidedBy"]), (&json!("plan-approval"), &json!("ben")));
    assert!(authority["approvalId"].is_string() && authority["decidedAt"].is_string(), "{authority}");
    assert_eq!(view["approval"]["decidedBy"], "ben", "{view}");
    assert_eq!(view["approvalId"], authority["approvalId"], "{view}");
    assert!(host.ok(&["runs", "show", &run]).out.contains("ben at "));
}

#[test]
fn a_rejected_plan_is_never_applied() {
    let (host, repository) = production();
    let run = host.plan("prod", &repository, &[]);
    host.state(&run, &["AwaitingApproval"]);
    host.ok(&["--as", "ben", "reject", &run, "--reason", "not today"]);
    let end = host.end(&run);
    assert_eq!(end["state"], "Rejected");
    assert!(end["detail"].as_str().unwrap().contains("not today"));
    assert_eq!(host.approve(&run).code, 4);
}

#[test]
fn an_approval_that_nobody_gives_expires() {
    let mut host = HostProcess::new();
    host.settings(&json!({"approvalExpirySeconds": 1}));
    host.start(&[]);
    let repository = Repository::new();
    repository.program(ONE);
    host.environment("prod", "production");
    let run = host.plan("prod", &repository, &[]);
    host.state(&run, &["AwaitingApproval", "Rejected"]);
    let end = host.end(&run);
    assert_eq!(end["state"], "Rejected");
    assert_eq!(host.approve(&run).code, 4);
}

#[test]
fn a_plan_under_which_the_state_moved_is_refused_as_stale() {
    let (host, repository) = production();
    let run = host.plan("prod", &repository, &[]);
    host.state(&run, &["AwaitingApproval"]);
    repository.program(OTHER);
    let between = host.promote("prod", &repository, &[]);
    host.applied(&between);
    assert_eq!(host.approve(&run).code, 0);
    let end = host.failed(&run, "plan-stale");
    assert!(end["detail"].as_str().unwrap().contains("nothing was touched"), "{end}");
    assert_eq!(host.receipt(&run, "apply")["result"], "not-started");
    assert_eq!(host.left("provisioning-failed", &run).len(), 1);
    host.verified("prod");
}

#[test]
fn a_secret_that_was_rotated_after_the_plan_makes_it_stale() {
    let (host, repository) = production();
    repository.program(
        "config: {password: {type: string, secret: true}}
resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: '${password}'}}
",
    );
    assert_eq!(host.cli_with(&["secrets", "set", "db/password"], "first-value").code, 0);
    let run = host.plan("prod", &repository, &["--secret", "password=db/password"]);
    host.state(&run, &["AwaitingApproval"]);
    assert_eq!(host.cli_with(&["secrets", "set", "db/password"], "second-value").code, 0);
    assert_eq!(host.approve(&run).code, 0);
    let end = host.failed(&run, "plan-stale");
    assert!(end["detail"].as_str().unwrap().contains("secret password"), "{end}");
}

#[test]
fn deletes_of_protected_types_wait_and_others_do_not() {
    let mut host = HostProcess::new();
    host.settings(&json!({"protectedTypes": ["local:index:Service"]}));
    host.start(&[]);
    let repository = Repository::new();
    let service = "  s: {type: 'local:index:Service', properties: {name: s, command: [sleep, '1000']}}\n";
    repository.program(&format!("{ONE}{service}"));
    host.environment("prod", "production");
    host.applied(&host.promote("prod", &repository, &[]));
    // Another type is deleted: the promotion's approval covers it.
    repository.program(&format!("{GONE}{service}"));
    let deletes = host.applied(&host.promote("prod", &repository, &[]));
    assert_eq!(deletes["planSummary"]["deletes"], 1);
    // A protected one is deleted: the plan itself has to be approved.
    repository.program(GONE);
    let run = host.promote("prod", &repository, &[]);
    let waiting = host.state(&run, &["AwaitingApproval", "Applied"]);
    assert_eq!(waiting["state"], "AwaitingApproval", "{waiting}");
    assert_eq!(waiting["planSummary"]["protected"], 1);
    assert_eq!(host.cli(&["--as", "cleo", "approve", &run]).code, 0);
    host.applied(&run);
}

#[test]
fn cancelling_ends_a_waiting_run_at_once_and_an_applying_one_gracefully() {
    let (host, repository) = production();
    let run = host.plan("prod", &repository, &[]);
    host.state(&run, &["AwaitingApproval"]);
    host.ok(&["runs", "cancel", &run, "--reason", "changed my mind"]);
    assert_eq!(host.end(&run)["state"], "Cancelled");

    repository.program(
        "resources:
  slow: {type: 'local:index:Service', properties: {name: slow, command: [sleep, '1000'], health: {tcp: {port: 1}, timeoutSeconds: 20}}}
  after: {type: 'local:index:File', properties: {path: after.txt, content: x}, options: {dependsOn: ['${slow}']}}
",
    );
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.state(&run, &["Applying"]);
    until("Pulumi to be at work", || !host.processes("pulumi").is_empty());
    host.ok(&["runs", "cancel", &run, "--reason", "wrong version"]);
    let end = host.failed(&run, "cancelled");
    assert!(end["detail"].as_str().unwrap().contains("wrong version"), "{end}");
    host.verified("dev");
}

#[test]
fn a_decision_that_comes_again_after_its_run_went_on_changes_nothing() {
    let (host, repository) = production();
    let run = host.plan("prod", &repository, &[]);
    let waiting = host.state(&run, &["AwaitingApproval"]);
    let service = host.token("RunControlService", "local");
    let decide = |id: &str, decision: &str, run: &str, plan: &serde_json::Value| {
        let event = json!({"specversion": "1.0", "id": id, "source": "/control", "time": "2026-01-01T00:00:00Z",
            "type": "control.approvals.v1.approval-decided", "data": {"approvalId": "00000000-0000-4000-8000-0000000000aa",
            "tenantId": "local", "provisioningRunId": run, "planDigest": plan["planSummary"]["digest"],
            "decision": decision, "decidedBy": "ben", "decidedAt": "2026-01-01T00:00:00Z"}});
        assert_eq!(host.post(&service, "/v1/events", &event).status, 202);
    };
    decide("decided", "approved", &run, &waiting);
    host.applied(&run);
    // Sent again by a bus that lost its answer: another event, the same decision.
    decide("decided-again", "approved", &run, &waiting);
    let next = host.plan("prod", &repository, &[]);
    let waiting = host.state(&next, &["AwaitingApproval"]);
    decide("rejected", "rejected", &next, &waiting);
    host.state(&next, &["Rejected"]);
    decide("rejected-again", "rejected", &next, &waiting);
    // One that is behind them all has been handled.
    decide("other", "approved", &next, &waiting);
    until("the last decision to be put aside", || {
        let dead = host.ok(&["--json", "events", "dead"]).json();
        let dead = dead.as_array().unwrap();
        assert!(dead.iter().all(|letter| letter["body"].as_str().unwrap().contains("\"other\"")), "{dead:?}");
        dead.len() == 1
    });
    assert_eq!(host.left("provisioning-applied", &run).len(), 1);
}
