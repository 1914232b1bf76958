//! Whatever a run meets, it ends, says why, and the next one gets its turn.

use runtime_cloud_e2e::{HostProcess, Repository, poll, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const FILE: &str = "resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: one}}
";

fn dev() -> (HostProcess, Repository) {
    let host = HostProcess::started();
    host.environment("dev", "development");
    until("the baseline to be applied", || host.runs().iter().any(|r| r["state"] == "Applied"));
    let repository = Repository::new();
    repository.program(FILE);
    (host, repository)
}

fn promotion(id: &str, commit: &str, repository: &Repository, decided_at: &str) -> String {
    json!({"specversion": "1.0", "id": id, "source": "/t", "type": "delivery.promotions.v1.promotion-approved",
    "time": "2026-01-01T00:00:00Z", "data": {"promotionId": id, "tenantId": "local", "projectId": "default",
    "environmentId": "dev", "releaseId": id, "approval": {"approvalId": id, "decidedBy": "ada",
    "decidedAt": decided_at}, "program": {"repository": repository.path(), "path": "app", "commit": commit},
    "configRefs": [], "secretRefs": []}})
    .to_string()
}

/// The file of an artifact, named by its digest.
fn artifact(host: &HostProcess, digest: &Value) -> std::path::PathBuf {
    let digest = digest.as_str().unwrap_or_default();
    host.data().join("artifacts").join(&digest[..2]).join(digest)
}

fn detail(view: &Value) -> &str {
    view["detail"].as_str().unwrap_or_default()
}

#[test]
fn outputs_of_any_size_are_in_the_receipt_and_end_the_run() {
    let (host, repository) = dev();
    std::fs::create_dir_all(repository.path().join("app")).unwrap();
    std::fs::write(repository.path().join("app/large.txt"), "x".repeat(5_000_000)).unwrap();
    repository.program(&format!("{FILE}outputs: {{large: {{fn::readFile: large.txt}}, small: 3}}\n"));
    let run = host.promote("dev", &repository, &[]);
    let end = host.applied(&run);
    assert_eq!(end["outputs"]["small"], 3, "{end}");
    assert_eq!(end["outputs"]["large"], "5000002 bytes, too many to show here: the apply receipt holds it");
    let event = &host.left("provisioning-applied", &run)[0];
    assert_eq!(event["data"]["outputs"], end["outputs"]);
    let receipt = host.receipt(&run, "apply");
    assert_eq!(receipt["outputs"]["large"].as_str().map(str::len), Some(5_000_000));
    repository.program(FILE);
    host.applied(&host.promote("dev", &repository, &[]));
}

#[test]
fn a_promotion_from_the_future_supersedes_nobody() {
    let (host, repository) = dev();
    let commit = repository.program(FILE);
    let id = "00000000-0000-4000-8000-00000000002a";
    let event = promotion(id, &commit, &repository, "2999-01-01T00:00:00Z");
    let refused = host.cli_with(&["events", "send", "-"], &event);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("decidedAt") && refused.err.contains("2999"), "{refused:?}");
    host.applied(&host.promote("dev", &repository, &[]));
}

#[test]
fn an_apply_whose_session_folder_is_gone_is_not_taken_for_one_that_never_started() {
    let mut host = HostProcess::started();
    host.environment("dev", "development");
    until("the baseline to be applied", || host.runs().iter().any(|r| r["state"] == "Applied"));
    let repository = Repository::new();
    repository.program(
        "resources:
  slow: {type: 'local:index:Service', properties: {name: slow, command: [sleep, '1000'], health: {tcp: {port: 1}, timeoutSeconds: 60}}}
",
    );
    let run = host.promote("dev", &repository, &[]);
    host.state(&run, &["Applying"]);
    until("the service's creation to be in flight", || {
        host.files().iter().any(|f| f.ends_with("record.json") && f.to_string_lossy().contains("slow"))
    });
    let pulumi = poll("Pulumi", || host.processes(&format!("{run}-apply-1/plan.json")).first().copied());
    host.kill();
    std::fs::remove_dir_all(host.data().join("sessions").join(format!("{run}-apply-1"))).unwrap();
    host.start(&[]);
    until("the host to have looked", || host.log().contains("run waits"));
    assert_eq!(host.run(&run)["state"], "Applying", "{}", host.run(&run));
    let _ = kill_process(Pid::from_raw(pulumi).unwrap(), Signal::KILL);
    // What its copy of the state says stays known: the creation that never ended.
    let end = host.failed(&run, "interrupted");
    assert!(!detail(&end).contains("never started"), "{end}");
    assert!(host.receipt(&run, "apply")["state"].is_string(), "{end}");
    host.verified("dev");
}

#[test]
fn a_state_that_is_lost_ends_the_plan_and_says_what_to_restore() {
    let (host, repository) = dev();
    let first = host.promote("dev", &repository, &[]);
    host.applied(&first);
    let state = artifact(&host, &host.receipt(&first, "apply")["state"]);
    let bytes = std::fs::read(&state).unwrap();
    std::fs::remove_file(&state).unwrap();
    let end = host.failed(&host.promote("dev", &repository, &[]), "plan-failed");
    assert!(detail(&end).contains("restore"), "{end}");
    std::fs::write(&state, "another").unwrap();
    let end = host.failed(&host.promote("dev", &repository, &[]), "plan-failed");
    assert!(detail(&end).contains("restore"), "{end}");
    std::fs::write(&state, bytes).unwrap();
    host.applied(&host.promote("dev", &repository, &[]));
}

#[test]
fn a_plan_file_that_is_lost_ends_the_apply_before_it_begins() {
    let (host, repository) = dev();
    host.environment("prod", "production");
    let run = host.plan("prod", &repository, &[]);
    let view = host.state(&run, &["AwaitingApproval"]);
    std::fs::remove_file(artifact(&host, &view["planSummary"]["digest"])).unwrap();
    assert_eq!(host.approve(&run).code, 0);
    let end = host.failed(&run, "apply-failed");
    assert!(detail(&end).contains("plan file") && detail(&end).contains("nothing was touched"), "{end}");
    assert_eq!(host.receipt(&run, "apply")["result"], "not-started");
}

#[test]
fn a_damaged_log_keeps_no_run_from_ending() {
    let (host, repository) = dev();
    host.applied(&host.promote("dev", &repository, &[]));
    // The next two logs are the same bytes: nothing is left to do.
    let second = host.applied(&host.promote("dev", &repository, &[]));
    let log = artifact(&host, &second["logsRef"]);
    let right = std::fs::read(&log).unwrap();
    std::fs::write(&log, "damaged").unwrap();
    let third = host.applied(&host.promote("dev", &repository, &[]));
    assert_eq!(third["logsRef"], second["logsRef"], "the test needs a log that comes twice");
    assert_eq!(std::fs::read(&log).unwrap(), right);
}

#[test]
fn a_lost_passphrase_is_not_made_anew() {
    let (host, repository) = dev();
    host.applied(&host.promote("dev", &repository, &[]));
    let file = host.data().join("secrets/passphrases/local/dev");
    let passphrase = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let end = host.failed(&host.promote("dev", &repository, &[]), "plan-failed");
    assert!(detail(&end).contains("passphrase") && detail(&end).contains("passphrases/local/dev"), "{end}");
    assert!(!file.exists());
    std::fs::write(&file, passphrase).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    host.applied(&host.promote("dev", &repository, &[]));
}

#[test]
fn an_approver_reads_what_will_be_made_and_changed() {
    let host = HostProcess::started();
    let repository = Repository::new();
    host.environment("prod", "production");
    assert_eq!(host.cli_with(&["secrets", "set", "db/password"], "hunter2hunter2").code, 0);
    let program = |content: &str| {
        repository.program(&format!(
            "config: {{password: {{type: string, secret: true}}}}
resources:
  a: {{type: 'local:index:File', properties: {{path: a.txt, content: {content}}}}}
  s: {{type: 'local:index:File', properties: {{path: s.txt, content: '${{password}}'}}}}
"
        ));
        host.plan("prod", &repository, &["--secret", "password=db/password"])
    };
    let run = program("first");
    host.state(&run, &["AwaitingApproval"]);
    let shown = host.ok(&["receipts", "show", &run, "plan"]).out;
    assert!(shown.contains("content: \"first\"") && shown.contains("path: \"a.txt\""), "{shown}");
    assert!(shown.contains("[secret]") && !shown.contains("hunter2"), "{shown}");
    assert_eq!(host.approve(&run).code, 0);
    host.applied(&run);
    let run = program("second");
    host.state(&run, &["AwaitingApproval"]);
    let shown = host.ok(&["receipts", "show", &run, "plan"]).out;
    assert!(shown.contains("content: \"first\" -> \"second\""), "{shown}");
    assert!(!host.receipt(&run, "plan").to_string().contains("hunter2"));
}

#[test]
fn an_environment_with_a_long_name_is_applied() {
    let host = HostProcess::started();
    let name = "é".repeat(50);
    host.environment(&name, "development");
    let repository = Repository::new();
    repository.program(FILE);
    host.applied(&host.promote(&name, &repository, &[]));
}
