//! Every process can die between any two lines: each promotion ends in exactly one recorded outcome.

use runtime_cloud_e2e::{HostProcess, Repository, poll, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const FILE: &str = "resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: one}}
";
/// An apply that lasts some seconds: its health check finds nothing until it gives up.
const SLOW: &str = "resources:
  slow: {type: 'local:index:Service', properties: {name: slow, command: [sleep, '1000'], health: {tcp: {port: 1}, timeoutSeconds: 4}}}
";
const PROMOTION: &str = "7b0c6f0e-3a51-4a0f-9d38-0a3a3a3f7c11";

fn kill(pid: i32) {
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
}

#[test]
fn a_host_that_dies_at_any_commit_or_receipt_of_a_promotion_ends_it_once() {
    let repository = Repository::new();
    repository.program(FILE);
    let mut points = 0;
    for point in ["commit", "receipt"] {
        for side in ["before", "after"] {
            for n in 1..40 {
                let mut host = HostProcess::new();
                host.start(&[]);
                host.environment("dev", "development");
                // The baseline is out of the way first, so that the points are the promotion's.
                until("the baseline to be applied", || host.runs().iter().any(|r| r["state"] == "Applied"));
                host.stop();
                // It may die before it listens: what it finds in its folder is work, too.
                let mut crashed =
                    !host.try_start(&[("RUNTIME_CLOUD_CRASH_AT", &format!("{point}:{side}:{n}"))]);
                if crashed {
                    host.start(&[]);
                }
                let path = repository.path();
                let args = [
                    "promote",
                    "--environment",
                    "dev",
                    "--path",
                    "app",
                    "--promotion",
                    PROMOTION,
                    "--repository",
                ];
                let args: Vec<&str> = args.into_iter().chain([path.to_str().unwrap()]).collect();
                // The host may be gone before it answers; the sender sends again, as a bus does.
                loop {
                    if !host.lives() {
                        crashed = true;
                        host.ended();
                        host.start(&[]);
                    }
                    let sent = host.cli(&args);
                    if sent.code == 0 && host.lives() {
                        break;
                    }
                }
                let run = poll("the run", || {
                    if !host.lives() {
                        crashed = true;
                        host.ended();
                        host.start(&[]);
                    }
                    let listed = host.cli(&["--json", "runs", "list"]);
                    let all = if listed.code == 0 { listed.json() } else { json!([]) };
                    let ended =
                        |r: &&serde_json::Value| r["kind"] == "promotion" && r["completedAt"].is_string();
                    all.as_array().and_then(|a| a.iter().find(ended).cloned())
                });
                // The point may lie behind the end of the run: look at it on a host without one.
                if host.lives() {
                    host.kill();
                } else {
                    host.ended();
                }
                host.start(&[]);
                let name = format!("{point}:{side}:{n}");
                let id = run["provisioningRunId"].as_str().unwrap();
                // Dead between the intent and the start: nothing ran, and so it says. Else it was applied.
                match run["state"].as_str().unwrap() {
                    "Applied" => assert_eq!(host.receipt(id, "apply")["result"], "succeeded", "{name}"),
                    "Failed" => assert_eq!(run["failure"]["reason"], "interrupted", "{name}: {run}"),
                    other => panic!("{name}: {other}"),
                }
                until("the event to have left", || {
                    host.events("provisioning-applied", id).len()
                        + host.events("provisioning-failed", id).len()
                        == 1
                });
                assert_eq!(host.events("provisioning-planned", id).len(), 1, "{name}");
                host.verified("dev");
                let doctor = host.cli(&["--json", "doctor"]).json();
                assert!(doctor.as_array().unwrap().iter().all(|c| c["ok"] == true), "{name}: {doctor}");
                if !crashed {
                    // The promotion has no n-th point: every one before it was tried.
                    break;
                }
                points += 1;
            }
        }
    }
    assert!(points >= 14, "only {points} points were tried");
}

#[test]
fn a_host_killed_during_an_apply_adopts_it_when_it_is_back() {
    let mut host = HostProcess::started();
    let repository = Repository::new();
    repository.program(SLOW);
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.state(&run, &["Applying"]);
    until("Pulumi to be at work", || !host.processes(&format!("{run}-apply-1/plan.json")).is_empty());
    host.kill();
    assert!(!host.processes("__supervise").is_empty(), "the supervisor outlives the host");
    host.start(&[]);
    let end = host.failed(&run, "apply-failed");
    assert!(end["detail"].as_str().unwrap().contains("slow"), "{end}");
    assert_eq!(host.left("provisioning-failed", &run).len(), 1);
    host.verified("dev");
    // What was made stays known: the next plan repairs it instead of making it again.
    repository.program(&SLOW.replace(", health: {tcp: {port: 1}, timeoutSeconds: 4}", ""));
    host.applied(&host.promote("dev", &repository, &[]));
}

#[test]
fn an_apply_that_ended_while_the_host_was_dead_is_recorded_when_it_is_back() {
    let mut host = HostProcess::started();
    let repository = Repository::new();
    repository.program(SLOW);
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.state(&run, &["Applying"]);
    until("Pulumi to be at work", || !host.processes(&format!("{run}-apply-1/plan.json")).is_empty());
    host.kill();
    until("the supervisor's end", || host.processes("__supervise").is_empty());
    host.start(&[]);
    host.failed(&run, "apply-failed");
    host.verified("dev");
}

#[test]
fn a_host_told_to_stop_during_an_apply_leaves_it_running() {
    let mut host = HostProcess::started();
    let repository = Repository::new();
    repository.program(SLOW);
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.state(&run, &["Applying"]);
    until("Pulumi to be at work", || !host.processes(&format!("{run}-apply-1/plan.json")).is_empty());
    assert_eq!(host.stop(), Some(0));
    host.start(&[]);
    host.failed(&run, "apply-failed");
    host.verified("dev");
}

#[test]
fn a_host_killed_during_a_plan_goes_on_with_it() {
    let mut host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    until("a planner at work", || {
        !host.processes(&format!("{run}-plan-1/plan.json")).is_empty()
            || host.run(&run)["completedAt"].is_string()
    });
    host.kill();
    host.start(&[]);
    host.applied(&run);
    assert_eq!(host.events("provisioning-planned", &run).len(), 1);
}

#[test]
fn pulumi_killed_alone_during_an_apply_ends_it_as_interrupted() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(SLOW);
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    let pid =
        poll("Pulumi to be at work", || host.processes(&format!("{run}-apply-1/plan.json")).first().copied());
    until("the service to be made", || !host.processes("pulumi-resource-local").is_empty());
    kill(pid);
    host.failed(&run, "interrupted");
    host.verified("dev");
}

#[test]
fn pulumi_told_to_stop_by_somebody_else_ends_its_apply_as_interrupted() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(
        "resources:
  slow: {type: 'local:index:Service', properties: {name: slow, command: [sleep, '1000'], health: {tcp: {port: 1}, timeoutSeconds: 3}}}
  after: {type: 'local:index:File', properties: {path: after.txt, content: x}, options: {dependsOn: ['${slow}']}}
",
    );
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    let pid =
        poll("Pulumi to be at work", || host.processes(&format!("{run}-apply-1/plan.json")).first().copied());
    until("the provider to be at work", || !host.processes("pulumi-resource-local").is_empty());
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM);
    let end = host.end(&run);
    assert_eq!(end["state"], "Failed", "{end}");
    host.verified("dev");
}

#[test]
fn unfinished_operations_stop_the_next_run_until_a_person_has_looked() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(&SLOW.replace("timeoutSeconds: 4", "timeoutSeconds: 60"));
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.state(&run, &["Applying"]);
    until("the service's creation to be in flight", || {
        host.files().iter().any(|f| f.ends_with("record.json") && f.to_string_lossy().contains("slow"))
    });
    let pid =
        poll("Pulumi to be at work", || host.processes(&format!("{run}-apply-1/plan.json")).first().copied());
    kill(pid);
    host.failed(&run, "interrupted");
    repository.program(FILE);
    let next = host.promote("dev", &repository, &[]);
    let end = host.failed(&next, "plan-failed");
    assert!(end["detail"].as_str().unwrap().contains("recover settle"), "{end}");
    host.ok(&["recover", "settle", "dev"]);
    host.applied(&host.promote("dev", &repository, &[]));
    host.verified("dev");
}

#[test]
fn a_store_restored_from_a_backup_applies_nothing_twice() {
    let mut host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("dev", "development");
    until("the baseline to be applied", || host.runs().iter().any(|r| r["state"] == "Applied"));
    let backup = host.ok(&["backup", "now"]).out.trim().to_owned();
    let run = host.promote("dev", &repository, &["--promotion", PROMOTION]);
    host.applied(&run);
    let first = host.receipt(&run, "apply");
    host.stop();
    host.ok(&["backup", "restore", &backup]);
    host.start(&[]);
    assert_eq!(host.run(&run), json!(null), "the backup is older than the run");
    assert_eq!(host.promote("dev", &repository, &["--promotion", PROMOTION]), run);
    host.applied(&run);
    // The record of the first apply stands: there was no second one.
    let again = host.receipt(&run, "apply");
    assert_eq!(first, again);
    host.verified("dev");
}

#[test]
fn a_restored_store_knows_what_later_applies_left() {
    let mut host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("dev", "development");
    until("the baseline to be applied", || host.runs().iter().any(|r| r["state"] == "Applied"));
    let backup = host.ok(&["backup", "now"]).out.trim().to_owned();
    host.applied(&host.promote("dev", &repository, &[]));
    host.stop();
    host.ok(&["backup", "restore", &backup]);
    host.start(&[]);
    // Another promotion, not a replay: against the state that the lost run left, there is nothing to add.
    let next = host.applied(&host.promote("dev", &repository, &[]));
    let summary = &next["planSummary"];
    assert_eq!((summary["adds"].as_u64(), summary["unchanged"].as_u64()), (Some(0), Some(1)), "{next}");
    assert!(
        host.receipt(next["provisioningRunId"].as_str().unwrap(), "apply")["token"]
            .as_str()
            .unwrap()
            .starts_with("2.")
    );
    host.verified("dev");
}

#[test]
fn a_second_host_on_the_same_folder_is_refused() {
    let mut host = HostProcess::started();
    let second = host.cli(&["up"]);
    assert_eq!(second.code, 1);
    assert!(second.err.contains("another host (pid"), "{second:?}");
    assert!(host.lives());
}

#[test]
fn an_applier_message_that_comes_twice_applies_once() {
    let mut host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.applied(&run);
    host.stop();
    // The very message again, under other ids, as a replayed archive would send it.
    let store = rusqlite::Connection::open(host.data().join("store.sqlite")).unwrap();
    for n in 0..3 {
        let again = format!(
            "INSERT INTO Messages (id, queue, grp, body, correlation, visible_at, sent_at)
             SELECT '00000000-0000-4000-8000-00000000a11{n}', queue, grp, body, correlation, 0, 0 FROM Messages
             WHERE queue = 'Applier' AND CAST(body AS TEXT) LIKE '%{run}%' LIMIT 1"
        );
        assert_eq!(store.execute(&again, []).unwrap(), 1);
    }
    drop(store);
    host.start(&[]);
    until("the messages to be handled", || {
        let store = rusqlite::Connection::open(host.data().join("store.sqlite")).unwrap();
        let left: i64 = store
            .query_row("SELECT count(*) FROM Messages WHERE id LIKE '00000000-0000-4000-8000-00000000a11%' AND state = 'ready'", [], |r| r.get(0))
            .unwrap();
        left == 0
    });
    assert_eq!(host.left("provisioning-applied", &run).len(), 1);
    assert_eq!(host.receipt(&run, "apply")["token"], "1.2", "the baseline's apply was the first");
    host.verified("dev");
}

#[test]
fn a_zombie_that_writes_after_its_runs_end_closes_the_environment() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.applied(&run);
    // What a Pulumi that wakes late would do: it writes into its own, dead copy of the state.
    let copy = poll("the dead copy", || {
        host.files().into_iter().find(|f| {
            let path = f.to_string_lossy();
            path.contains(&run) && path.contains("/stacks/") && path.ends_with(".json")
        })
    });
    std::fs::write(&copy, "{\"version\": 3, \"checkpoint\": {}}").unwrap();
    until("the environment to be closed", || {
        let all = host.ok(&["--json", "environments", "list"]).json();
        all.as_array().unwrap().iter().any(|e| e["closed"].is_string())
    });
    let next = host.promote("dev", &repository, &[]);
    until("the run to say why it waits", || {
        host.run(&next)["detail"].as_str().unwrap_or_default().contains("closed")
    });
    std::fs::remove_dir_all(copy.ancestors().find(|a| a.ends_with(format!("{run}-apply-1"))).unwrap())
        .unwrap();
    host.ok(&["recover", "clear", "dev"]);
    host.applied(&next);
}

#[test]
fn a_run_that_nothing_proves_dead_stays_locked_until_a_person_breaks_it() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(&SLOW.replace("timeoutSeconds: 4", "timeoutSeconds: 60"));
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &[]);
    host.state(&run, &["Applying"]);
    until("the service's creation to be in flight", || {
        host.files().iter().any(|f| f.ends_with("record.json") && f.to_string_lossy().contains("slow"))
    });
    // A run that lives is not broken: it is cancelled.
    let refused = host.cli(&["recover", "break", &run, "--reason", "impatience"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    // Its Pulumi freezes, as in a machine that is put to sleep, and its supervisor dies: silence, but no proof.
    let pulumi = poll("Pulumi", || host.processes(&format!("{run}-apply-1/plan.json")).first().copied());
    kill_process(Pid::from_raw(pulumi).unwrap(), Signal::STOP).unwrap();
    kill(poll("the supervisor", || host.processes(&format!("sessions/{run}-apply-1")).first().copied()));
    poll("the run to be broken by a person", || {
        let answer = host.cli(&["recover", "break", &run, "--reason", "its machine was seen to burn"]);
        assert!(answer.code == 0 || host.run(&run)["completedAt"].is_null(), "{answer:?} {}", host.run(&run));
        (answer.code == 0).then_some(())
    });
    let end = host.failed(&run, "interrupted");
    assert!(end["detail"].as_str().unwrap().contains("seen to burn"), "{end}");
    let all = host.ok(&["--json", "environments", "list"]).json();
    assert!(all[0]["closed"].is_string(), "{all}");
    host.verified("dev");
}

#[test]
fn what_was_printed_with_a_secret_that_changed_while_its_host_was_dead_is_withheld() {
    let mut host = HostProcess::started();
    let repository = Repository::new();
    // A file shows its content to whoever reads outputs, and nothing marks it as a secret.
    repository.program(&format!(
        "config: {{password: {{type: string, secret: true}}}}\n{SLOW}  shown: {{type: 'local:index:File', properties: \
         {{path: shown.txt, content: '${{password}}'}}}}\noutputs: {{plain: x}}\n"
    ));
    host.environment("dev", "development");
    assert_eq!(host.cli_with(&["secrets", "set", "db/password"], "the-first-value").code, 0);
    let run = host.promote("dev", &repository, &["--secret", "password=db/password"]);
    host.state(&run, &["Applying"]);
    until("Pulumi to be at work", || !host.processes(&format!("{run}-apply-1/plan.json")).is_empty());
    host.kill();
    assert_eq!(host.cli_with(&["secrets", "set", "db/password"], "the-second-value").code, 0);
    host.start(&[]);
    let end = host.end(&run);
    let receipt = host.receipt(&run, "apply");
    assert!(receipt["message"].as_str().unwrap().contains("db/password changed while it ran"), "{receipt}");
    assert!(receipt["outputs"]["withheld"].is_string(), "{receipt}");
    for told in [end.to_string(), receipt.to_string(), host.ok(&["runs", "logs", &run]).out] {
        assert!(!told.contains("the-first-value"), "{told}");
    }
    host.verified("dev");
}
