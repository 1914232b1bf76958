//! The command line: what it says, and what it leaves behind.

use runtime_cloud_e2e::{HostProcess, Repository, until};
use serde_json::json;

const FILE: &str = "resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: one}}
";

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let host = HostProcess::started();
    host.environment("dev", "development");
    until("the baseline to be there", || !host.runs().is_empty());
    let run = host.runs()[0]["provisioningRunId"].as_str().unwrap().to_owned();
    for args in [
        &["runs", "list"][..],
        &["--json", "runs", "list"][..],
        &["runs", "show", &run][..],
        &["runs", "watch", &run][..],
        &["events", "list"][..],
        &["events", "dead"][..],
        &["environments", "list"][..],
        &["receipts", "verify", "dev"][..],
        &["config", "set", "a", "b"][..],
        &["doctor"][..],
        &["completions", "bash"][..],
        &["--help"][..],
        &["--version"][..],
    ] {
        let answer = host.unread(args);
        assert!(matches!(answer.code, 0 | 141) && answer.err.is_empty(), "{args:?}: {answer:?}");
    }
}

#[test]
fn an_environment_of_another_class_is_refused() {
    let host = HostProcess::started();
    host.environment("dev", "development");
    let refused = host.cli(&["environments", "create", "dev", "--class", "production"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("is of class development") && refused.out.is_empty(), "{refused:?}");
    assert_eq!(host.ok(&["--json", "events", "dead"]).json(), json!([]));
    // The same again changes nothing.
    host.environment("dev", "development");
}

#[test]
fn references_that_can_not_work_are_refused_before_they_are_sent() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("dev", "development");
    let path = repository.path();
    let path = path.to_str().unwrap();
    for (code, more) in [
        (2, &["--config", "="][..]),
        (2, &["--secret", "key="][..]),
        (4, &["--config", "a=x", "--config", "a=y"][..]),
        (4, &["--config", "a=x", "--secret", "a=x"][..]),
        (4, &["--config", "runtimecloud:class=x"][..]),
        (4, &["--strategy", "a\u{202E}b"][..]),
    ] {
        let args = ["promote", "--environment", "dev", "--path", "app", "--repository", path];
        let refused = host.cli(&[&args[..], more].concat());
        assert_eq!(refused.code, code, "{more:?}: {refused:?}");
        assert!(refused.out.is_empty() && refused.err.contains(';'), "{more:?}: {refused:?}");
    }
    assert!(host.events("promotion-approved", "").is_empty());
}

#[test]
fn a_rerun_has_its_own_program_and_references() {
    let host = HostProcess::new();
    for more in [["--path", "app"], ["--ref", "main"], ["--config", "a=b"], ["--secret", "a=b"]] {
        let refused = host.cli(&[&["plan", "--rerun", "0"][..], &more[..]].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains("--rerun"), "{refused:?}");
    }
}

#[test]
fn the_same_request_is_the_same_run() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("dev", "development");
    let plan = || host.plan("dev", &repository, &["--request", "once"]);
    assert_eq!(plan(), plan());
}

#[test]
fn a_killed_host_is_gone_whoever_has_its_port_now() {
    let mut host = HostProcess::started();
    host.ok(&["runs", "list"]);
    host.kill();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let address = json!({"url": format!("http://{}", other.local_addr().unwrap()), "pid": 1});
    std::fs::write(host.data().join("host.json"), address.to_string()).unwrap();
    let answer = host.cli(&["runs", "list"]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.err.contains("no host works on"), "{answer:?}");
    assert!(other.accept().is_err(), "somebody was asked");
}

#[test]
fn every_answer_is_json_for_programs() {
    let mut host = HostProcess::started();
    let created = host.ok(&["--json", "environments", "create", "dev", "--class", "development"]).json();
    assert_eq!(created["environmentId"], "dev");
    assert_eq!(host.ok(&["--json", "config", "set", "a/b", "c"]).json()["ref"], "a/b");
    assert_eq!(host.cli_with(&["--json", "secrets", "set", "a/b"], "secret").json()["ref"], "a/b");
    assert_eq!(host.ok(&["--json", "recover", "clear", "dev"]).json()["cleared"], true);
    let backup = host.ok(&["--json", "backup", "now"]).json();
    host.stop();
    let restored = host.ok(&["--json", "backup", "restore", backup["file"].as_str().unwrap()]).json();
    assert!(restored["replaced"].as_str().is_some_and(|file| file.contains("replaced-")), "{restored}");
}

#[test]
fn a_long_name_is_a_name() {
    let host = HostProcess::started();
    let (name, other) = ("é".repeat(120), format!("{}e", "é".repeat(119)));
    host.ok(&["--as", &name, "runs", "list"]);
    host.ok(&["--as", &other, "runs", "list"]);
    let people = std::fs::read_dir(host.data().join("people")).unwrap().count();
    assert_eq!(people, 2, "each has a file of their own");
}

#[test]
fn a_damaged_person_is_named() {
    let host = HostProcess::started();
    host.ok(&["--as", "ben", "runs", "list"]);
    let file = host.data().join("people/ben@local.json");
    for text in ["", "{", "{\"name\": \"ben\"}"] {
        std::fs::write(&file, text).unwrap();
        let refused = host.cli(&["--as", "ben", "runs", "list"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("ben@local.json") && refused.err.contains("remove it"), "{refused:?}");
    }
    std::fs::remove_file(&file).unwrap();
    host.ok(&["--as", "ben", "runs", "list"]);
}

#[test]
fn a_secret_that_can_not_be_set_is_named() {
    let host = HostProcess::new();
    for reference in ["", " ", "a\nb"] {
        let refused = host.cli_with(&["secrets", "set", reference], "x");
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains("secret reference"), "{refused:?}");
    }
    let refused = host.cli_with_bytes(&["secrets", "set", "web/key"], &[0xff, 0xfe, 0x00]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("web/key") && refused.err.contains("base64"), "{refused:?}");
}

#[test]
fn nothing_is_said_of_a_decision_that_is_refused() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("prod", "production");
    let run = host.plan("prod", &repository, &[]);
    host.state(&run, &["AwaitingApproval"]);
    let own = host.cli(&["approve", &run]);
    assert_eq!((own.code, own.out.as_str()), (4, ""), "{own:?}");
    let other = host.ok(&["--as", "ben", "approve", &run]);
    assert!(other.out.contains("approved: "), "{other:?}");
}

#[test]
fn a_run_that_failed_early_has_no_receipt_to_wait_for() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program("config: {a: {type: string, default: x}}\n");
    host.environment("dev", "development");
    let run = host.promote("dev", &repository, &["--config", "a=no/such"]);
    host.failed(&run, "plan-failed");
    let answer = host.cli(&["receipts", "show", &run]);
    assert_eq!(answer.code, 5, "{answer:?}");
    assert!(answer.err.contains("plan-failed") && !answer.err.contains("wait"), "{answer:?}");
}

#[test]
fn the_newest_backup_is_always_kept() {
    let mut host = HostProcess::new();
    host.settings(&json!({"backupsKept": 0}));
    host.start(&[]);
    for _ in 0..2 {
        let file = host.ok(&["backup", "now"]).out.trim().to_owned();
        assert!(std::path::Path::new(&file).is_file(), "{file} is not there");
    }
    assert_eq!(std::fs::read_dir(host.data().join("backups")).unwrap().count(), 1);
}

#[test]
fn a_replaced_store_keeps_its_last_writes() {
    let mut host = HostProcess::started();
    host.environment("one", "development");
    let backup = host.ok(&["backup", "now"]).out.trim().to_owned();
    host.environment("two", "development");
    host.kill();
    let said = host.ok(&["backup", "restore", &backup]).out;
    let kept = said.split_whitespace().find(|w| w.contains("replaced-")).unwrap().to_owned();
    let names = |host: &HostProcess| {
        let all = host.ok(&["--json", "environments", "list"]).json();
        all.as_array()
            .unwrap()
            .iter()
            .map(|e| e["environmentId"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    host.start(&[]);
    assert_eq!(names(&host), ["one"]);
    host.kill();
    host.ok(&["backup", "restore", &kept]);
    host.start(&[]);
    assert_eq!(names(&host), ["one", "two"]);
}

#[test]
fn what_is_no_backup_replaces_nothing_and_leaves_nothing() {
    let mut host = HostProcess::started();
    host.environment("dev", "development");
    host.stop();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let other = folder.path().join("other.sqlite");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE Songs (name TEXT)").unwrap();
    let newer = folder.path().join("newer.sqlite");
    std::fs::copy(host.data().join("store.sqlite"), &newer).unwrap();
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = host.files();
    for path in [
        file("empty", b""),
        file("text", &[b'x'; 9000]),
        other,
        newer,
        folder.path().to_owned(),
        folder.path().join("missing"),
    ] {
        let refused = host.cli(&["backup", "restore", path.to_str().unwrap()]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains(path.to_str().unwrap()), "{refused:?}");
        assert_eq!(host.files(), before, "{refused:?}");
    }
    host.start(&[]);
    assert!(host.ok(&["environments", "list"]).out.contains("dev"));
    // Where no data folder is, none is made.
    let fresh = HostProcess::new();
    assert_eq!(fresh.cli(&["backup", "restore", "/nowhere/at/all"]).code, 1);
    assert!(!fresh.data().exists());
}
