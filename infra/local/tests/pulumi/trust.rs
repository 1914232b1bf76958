//! What services must not get, and what nobody may read.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use crate::crash::hang_at_the_second_replica;
use crate::stage::{PASSPHRASE, Stage, environment, eventually, said};

impl Stage {
    /// As `nowhere`, for a program that holds the secret itself.
    pub fn nowhere_but_the_program(&self, text: &str) {
        fs::remove_file(self.path().join("program/Pulumi.yaml")).unwrap();
        self.nowhere(text);
        self.program(json!({}), json!({}));
    }
}

#[test]
fn secrets_are_in_the_processes_only() {
    let stage = Stage::new();
    let config = |value: &str| {
        stage.pulumi(&["config", "set", "--secret", "token", value, "-s", "dev"]).ok();
    };
    config("first-hush");
    let program = json!({
        "web": {"type": "local:index:Service", "properties": {
            "command": ["sleep", "1000"], "env": {"STAGE": stage.path()}, "secretEnv": {"TOKEN": "${token}"},
        }},
    });
    let write = || {
        stage.program(program.clone(), json!({"env": "${web.secretEnv}"}));
        let path = stage.path().join("program/Pulumi.yaml");
        let mut document: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        document["config"] = json!({"token": {"type": "string", "secret": true}});
        fs::write(path, document.to_string()).unwrap();
    };
    write();
    let shown = stage.up().ok();
    assert!(!shown.contains("first-hush"));
    let first = stage.living();
    assert_eq!(environment(first[0])["TOKEN"], "first-hush");
    let line = fs::read_to_string(format!("/proc/{}/cmdline", first[0])).unwrap();
    assert!(!line.contains("hush"));
    stage.nowhere("first-hush");
    stage.refresh().ok();
    stage.unchanged();
    assert_eq!(stage.living(), first);
    stage.nowhere("first-hush");

    config("other-hush");
    stage.up().ok();
    let second = stage.living();
    assert_ne!(first, second, "another secret is another process");
    assert_eq!(environment(second[0])["TOKEN"], "other-hush");
    stage.nowhere("other-hush");
    use std::os::unix::fs::PermissionsExt as _;
    for entry in fs::read_dir(stage.root().join("services")).unwrap() {
        let record = entry.unwrap().path().join("record.json");
        assert_eq!(fs::metadata(record).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// Rule 21: services shed the run's lock and its marker.
#[test]
fn services_shed_the_lock_the_marker_and_the_passphrase() {
    let stage = Stage::new();
    let path = stage.path().join("run.lock");
    let lock = fs::File::create(&path).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let free = || {
        let again = fs::File::open(&path).unwrap();
        flock(&again, FlockOperation::NonBlockingLockExclusive).is_ok()
    };
    let pipe = hang_at_the_second_replica(&stage);
    stage.service(json!({"name": "web", "command": ["sleep", "1000"], "replicas": 2}));
    // The shell makes descriptor 9 of the lock, which Pulumi and its plugins inherit.
    let pulumi = stage.command(&["up", "--yes", "--skip-preview", "-s", "dev"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec 9<&0 </dev/null; exec \"$@\"", "sh"])
        .arg(pulumi.get_program())
        .args(pulumi.get_args());
    shell.envs(pulumi.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let mut up = shell.stdin(lock).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    drop(shell);
    eventually("one of two runs", || stage.marked().len() == 1);
    assert!(!free());
    let holds = |pid: &u32| fs::read_link(format!("/proc/{pid}/fd/9")).is_ok_and(|target| target == path);
    assert!(
        stage.plugins().iter().any(holds),
        "the plugin inherited the lock, so there was something to shed"
    );
    drop(fs::OpenOptions::new().read(true).open(pipe).unwrap());
    assert!(up.wait().unwrap().success());

    let living = stage.living();
    assert_eq!(living.len(), 2);
    for pid in living {
        let environment = environment(pid);
        let names: BTreeSet<_> = environment.keys().map(String::as_str).collect();
        let wanted = ["HOME", "LANG", "PATH", "RUNTIME_CLOUD_REPLICA", "RUNTIME_CLOUD_SERVICE", "STAGE"];
        assert_eq!(names, BTreeSet::from(wanted));
        assert!(!environment.values().any(|value| value.contains(PASSPHRASE)));
        let mut open: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        open.sort();
        assert_eq!(open, ["0", "1", "2"]);
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let session = status.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned();
        assert_eq!(session, pid.to_string());
    }
    eventually("the run's lock is free", free);
    assert_eq!(stage.marked().len(), 2);
}

#[test]
fn a_missing_or_relative_root_is_named() {
    let stage = Stage::new();
    stage.service(json!({"command": ["sleep", "1000"]}));
    let arguments = ["up", "--yes", "--skip-preview", "-s", "dev"];
    let told = said(stage.command(&arguments).env_remove("RUNTIME_CLOUD_LOCAL_ROOT")).failed();
    assert!(told.contains("RUNTIME_CLOUD_LOCAL_ROOT is not set"), "{told}");
    let told = said(stage.command(&arguments).env("RUNTIME_CLOUD_LOCAL_ROOT", "some/where")).failed();
    assert!(told.contains("not an absolute path"), "{told}");
}
