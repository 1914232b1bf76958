//! What a promotion does, on the real parts.

use runtime_cloud_e2e::{HostProcess, Repository, until};
use serde_json::json;

const TWO_FILES: &str = "config: {greeting: {type: string, default: hello}}
resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: '${greeting}'}}
  b: {type: 'local:index:File', properties: {path: b.txt, content: b}}
outputs: {greeting: '${greeting}'}
";

#[test]
fn a_promotion_is_planned_applied_and_recorded() {
    let host = HostProcess::started();
    let repository = Repository::new();
    let commit = repository.program(TWO_FILES);
    host.environment("dev", "development");
    host.ok(&["config", "set", "greetings/dev", "1.10"]);
    let run = host.promote("dev", &repository, &["--config", "greeting=greetings/dev"]);
    let end = host.applied(&run);
    assert_eq!(end["outputs"], json!({"greeting": "1.10"}), "a string that looks like a number stays one");
    assert_eq!(end["program"]["commit"], json!(commit));

    let plan = host.receipt(&run, "plan");
    assert_eq!(plan["summary"]["adds"], 2);
    assert_eq!(
        plan["inputs"]["config"],
        json!([{"key": "greeting", "ref": "greetings/dev", "version": "1"}])
    );
    assert_eq!(plan["verdict"]["answer"], "allow");
    assert_eq!(plan["targets"]["local:this-machine"]["reachable"], true);
    let apply = host.receipt(&run, "apply");
    assert_eq!(apply["result"], "succeeded");
    assert_eq!(apply["resources"].as_array().map(Vec::len), Some(2));
    assert_eq!(apply["planReceipt"], end["planReceipt"]);
    host.verified("dev");

    assert_eq!(host.events("specification-declared", "").len(), 2, "the baseline's and the promotion's");
    until("the last event to have left", || host.events("provisioning-applied", &run).len() == 1);
    let planned = host.events("provisioning-planned", &run);
    assert_eq!(planned.len(), 1);
    assert_eq!(planned[0]["data"]["planSummary"]["adds"], 2);
    let applied = host.events("provisioning-applied", &run);
    assert_eq!(applied.len(), 1);
    assert_eq!(applied[0]["data"]["outputs"], json!({"greeting": "1.10"}));
    assert_eq!(applied[0]["source"], "/runtime-cloud/IaCProvisioningService");
}

#[test]
fn a_plan_says_where_the_world_is_not_as_its_state_says() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(TWO_FILES);
    host.environment("dev", "development");
    let first = host.promote("dev", &repository, &[]);
    host.applied(&first);
    let all_as_said = host.receipt(&first, "plan");
    assert_eq!(all_as_said["refresh"], json!(null), "a new stack has nothing to look at");

    let files = host.files();
    let file = |name: &str| files.iter().find(|f| f.ends_with(name)).expect("the file of a program").clone();
    std::fs::write(file("a.txt"), "by hand").expect("the file is there");
    std::fs::remove_file(file("b.txt")).expect("the file is there");
    let second = host.promote("dev", &repository, &[]);
    host.end(&second);
    let refresh = &host.receipt(&second, "plan")["refresh"];
    assert_eq!(refresh["outcome"], "looked", "{refresh}");
    let differing = refresh["differing"].as_array().expect("a list");
    assert_eq!(differing.len(), 2, "{refresh}");
    let urn = |n: usize| differing[n]["urn"].as_str().unwrap_or_default().rsplit("::").next();
    assert_eq!((urn(0), &differing[0]["gone"]), (Some("a"), &json!(false)));
    assert_eq!((urn(1), &differing[1]["gone"]), (Some("b"), &json!(true)));
    let shown = host.ok(&["receipts", "show", &second, "plan"]).out;
    assert!(shown.contains("is GONE") && shown.contains("not part of this plan"), "{shown}");
}

#[test]
fn the_same_promotion_again_is_the_same_run() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(TWO_FILES);
    host.environment("dev", "development");
    let promotion = "7b0c6f0e-3a51-4a0f-9d38-0a3a3a3f7c11";
    let first = host.promote("dev", &repository, &["--promotion", promotion]);
    for _ in 0..3 {
        assert_eq!(host.promote("dev", &repository, &["--promotion", promotion]), first);
    }
    host.applied(&first);
    assert_eq!(host.promote("dev", &repository, &["--promotion", promotion]), first);
    let promotions = host.runs().iter().filter(|r| r["kind"] == "promotion").count();
    assert_eq!(promotions, 1);
    until("the event to have left", || !host.events("provisioning-applied", &first).is_empty());
    assert_eq!(host.left("provisioning-applied", &first).len(), 1);
}

#[test]
fn a_promotion_before_its_environment_waits_and_goes_on() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(TWO_FILES);
    let run = host.promote("later", &repository, &[]);
    host.state(&run, &["Planned"]);
    until("the planner to have seen that there is no environment", || host.log().contains("run waits"));
    host.environment("later", "development");
    host.applied(&run);
}

#[test]
fn two_programs_for_one_environment_queue_and_a_newer_one_of_the_same_supersedes() {
    let host = HostProcess::started();
    let slow = Repository::new();
    slow.program(
        "resources:
  slow: {type: 'local:index:Service', properties: {name: slow, command: [sleep, '1000'], health: {tcp: {port: 1}, timeoutSeconds: 5}}}
",
    );
    host.environment("dev", "development");
    let first = host.promote("dev", &slow, &[]);
    host.state(&first, &["Applying"]);
    // Of another program: they wait behind the first. Of the same: the newest takes the waiting ones' place.
    let repository = Repository::new();
    repository.program(TWO_FILES);
    let second = host.promote("dev", &repository, &[]);
    host.state(&second, &["Planned"]);
    let third = host.promote("dev", &repository, &[]);
    let superseded = host.end(&second);
    assert_eq!(superseded["state"], "Cancelled");
    assert!(superseded["detail"].as_str().unwrap().contains(&third), "{superseded}");
    // Its health check never succeeds: the first fails, and the next one gets its turn.
    host.failed(&first, "apply-failed");
    let end = host.applied(&third);
    assert!(end["startedAt"].as_str() > superseded["startedAt"].as_str());
    host.verified("dev");
}

#[test]
fn an_older_promotion_that_arrives_late_is_superseded_on_arrival() {
    let host = HostProcess::started();
    let repository = Repository::new();
    let old = repository.program(TWO_FILES);
    let new = repository.program(&TWO_FILES.replace("hello", "welcome"));
    host.environment("dev", "development");
    let event = |promotion: &str, commit: &str, at: &str| {
        json!({"specversion": "1.0", "id": promotion, "source": "/test", "type": "delivery.promotions.v1.promotion-approved",
          "time": "2026-01-01T00:00:00Z", "data": {
            "promotionId": promotion, "tenantId": "local", "projectId": "default", "environmentId": "dev",
            "releaseId": promotion, "approval": {"approvalId": promotion, "decidedBy": "ada", "decidedAt": at},
            "program": {"repository": repository.path(), "path": "app", "commit": commit}, "configRefs": [], "secretRefs": []}})
        .to_string()
    };
    let newer = "00000000-0000-4000-8000-000000000002";
    let older = "00000000-0000-4000-8000-000000000001";
    for (id, commit, at) in [(newer, &new, "2026-01-02T00:00:00Z"), (older, &old, "2026-01-01T00:00:00Z")] {
        assert_eq!(host.cli_with(&["events", "send", "-"], &event(id, commit, at)).code, 0);
        until("the promotion to be taken in", || host.runs().iter().any(|r| r["promotionId"] == json!(id)));
    }
    let run = |id: &str| host.runs().into_iter().find(|r| r["promotionId"] == json!(id)).unwrap();
    let id = |r: serde_json::Value| r["provisioningRunId"].as_str().unwrap().to_owned();
    assert_eq!(host.end(&id(run(older)))["state"], "Cancelled");
    host.applied(&id(run(newer)));
}

#[test]
fn an_unchanged_program_is_planned_without_changes() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(TWO_FILES);
    host.environment("dev", "development");
    host.applied(&host.promote("dev", &repository, &[]));
    let again = host.applied(&host.promote("dev", &repository, &[]));
    let summary = &again["planSummary"];
    assert_eq!(
        (summary["adds"].as_u64(), summary["changes"].as_u64(), summary["unchanged"].as_u64()),
        (Some(0), Some(0), Some(2))
    );
}

#[test]
fn a_plan_of_a_thousand_resources_is_recorded_whole() {
    let host = HostProcess::started();
    let repository = Repository::new();
    let mut body = "resources:\n".to_owned();
    for n in 0..1000 {
        body.push_str(&format!(
            "  f{n}: {{type: 'local:index:File', properties: {{path: f{n}.txt, content: x}}}}\n"
        ));
    }
    repository.program(&body);
    host.environment("prod", "production");
    let run = host.plan("prod", &repository, &[]);
    let waiting = host.state(&run, &["AwaitingApproval"]);
    assert_eq!(waiting["planSummary"]["adds"], 1000);
    assert_eq!(host.receipt(&run, "plan")["steps"].as_array().map(Vec::len), Some(1000));
}

#[test]
fn strange_names_are_kept_apart_and_shown_as_they_are() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(TWO_FILES);
    for name in ["a::b", "a:b", "q\"uote", "back\\slash", "ünï", "a/b", "a b"] {
        host.environment(name, "development");
        let end = host.applied(&host.promote(name, &repository, &[]));
        assert_eq!(end["environmentId"], json!(name));
        host.verified(name);
    }
}

#[test]
fn another_tenants_environment_is_not_found() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(TWO_FILES);
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.applied(&run);
    let foreign = host.cli(&["--tenant", "other", "runs", "show", &run]);
    assert_eq!(foreign.code, 5, "{foreign:?}");
    let path = repository.path();
    let path = path.to_str().unwrap();
    // A promotion of another tenant into it is refused, before it is taken in.
    let args =
        ["--tenant", "other", "promote", "--environment", "dev", "--repository", path, "--path", "app"];
    for watch in [&[][..], &["--watch"][..]] {
        let refused = host.cli(&[&args[..], watch].concat());
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(refused.err.contains("another tenant") && refused.out.is_empty(), "{refused:?}");
    }
    let taken = host.cli(&["--tenant", "other", "environments", "create", "dev", "--class", "development"]);
    assert_eq!(taken.code, 4, "{taken:?}");
    assert_eq!(host.ok(&["--tenant", "other", "--json", "events", "list"]).json(), json!([]));
}

#[test]
fn services_live_on_after_their_run() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(
        "resources:
  web: {type: 'local:index:Service', properties: {name: web, command: [sleep, '1000'], replicas: 2}}
",
    );
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.applied(&run);
    until("what the run left to be cleaned", || {
        !host.data().join(format!("sessions/{run}-apply-1")).exists()
    });
    let living = || {
        let services = local::list(&host.data().join("local/local/dev")).unwrap();
        services.iter().map(|s| s.living.len()).sum::<usize>()
    };
    assert_eq!(living(), 2);
    // And go when the program no longer names them.
    repository.program("");
    host.applied(&host.promote("dev", &repository, &[]));
    assert_eq!(living(), 0);
}
