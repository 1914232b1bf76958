//! The life of a service.

use std::collections::BTreeSet;

use runtime_cloud_local::Verdict;
use serde_json::json;

use crate::stage::{Stage, environment, eventually, free_port, kill, sample};

#[test]
fn created_changed_scaled_and_deleted() {
    let stage = Stage::new();
    let service = |replicas: u32, version: &str| {
        stage.service(
            json!({"name": "web", "command": ["sleep", "1000"], "replicas": replicas, "version": version}),
        );
    };
    service(2, "one");
    stage.preview().ok();
    assert!(stage.services().is_empty(), "a preview makes nothing");
    stage.up().ok();
    let first = stage.living();
    assert_eq!(first.len(), 2);
    assert_eq!(stage.resource("web")["outputs"]["status"], "running");
    assert_eq!(stage.resource("web")["outputs"]["pids"][0]["pid"], first[0]);
    stage.unchanged();

    service(3, "one");
    stage.up().ok();
    let more = stage.living();
    assert_eq!(more.len(), 3);
    assert!(first.iter().all(|pid| more.contains(pid)), "scaling up leaves the others alone");

    service(1, "one");
    stage.up().ok();
    assert_eq!(stage.living(), first[..1]);
    eventually("the surplus ends", || stage.marked() == first[..1]);

    service(1, "two");
    let shown = stage.preview().ok();
    assert!(shown.contains("version"), "{shown}");
    stage.up().ok();
    let second = stage.living();
    assert_eq!(second.len(), 1);
    assert_ne!(second, first[..1]);
    assert_eq!(stage.marked(), second);
    assert_eq!(stage.services()[0].version.as_deref(), Some("two"));
    stage.refresh().ok();
    stage.unchanged();

    stage.service(json!({"name": "other", "command": ["sleep", "1000"], "version": "two"}));
    stage.up().ok();
    assert_eq!(stage.services().len(), 1, "another name replaces the service");
    assert_eq!(stage.services()[0].name, "other");

    stage.service(json!({"name": "other", "command": ["sleep", "1000"], "version": "two", "replicas": 0}));
    stage.up().ok();
    assert!(stage.marked().is_empty());
    stage.refresh().ok();
    stage.unchanged();

    stage.destroy().ok();
    assert!(stage.services().is_empty());
    assert!(stage.marked().is_empty());
    assert!(!stage.root().join("services/other").exists());
}

#[test]
fn a_killed_process_is_drift_and_gets_repaired() {
    let stage = Stage::new();
    stage.service(json!({"command": ["sleep", "1000"], "replicas": 3}));
    stage.up().ok();
    let before = stage.living();
    kill(before[1]);
    eventually("it is dead", || stage.living().len() == 2);

    let shown = stage.pulumi(&["refresh", "--preview-only", "--expect-no-changes", "-s", "dev"]).failed();
    assert!(shown.contains("replicas") || shown.contains("update"), "{shown}");
    stage.refresh().ok();
    assert_eq!(stage.resource("web")["inputs"]["replicas"], 2);
    assert_eq!(stage.resource("web")["outputs"]["status"], "degraded");
    stage.up().ok();
    let after = stage.living();
    assert_eq!(after.len(), 3);
    assert_eq!([after[0], after[2]], [before[0], before[2]], "the survivors are left alone");

    stage.marked().into_iter().for_each(kill);
    eventually("all are dead", || stage.marked().is_empty());
    stage.refresh().ok();
    assert_eq!(stage.resource("web")["inputs"]["replicas"], 0);
    stage.up().ok();
    assert_eq!(stage.living().len(), 3);

    runtime_cloud_local::stop_all(&stage.root()).unwrap();
    std::fs::remove_dir_all(stage.root()).unwrap();
    stage.refresh().ok();
    assert!(stage.resource("web").is_null(), "what is gone is gone from the state");
}

#[test]
fn a_process_that_ignores_the_polite_signal_is_killed_with_its_children() {
    let stage = Stage::new();
    let script = "trap '' TERM; sleep 1000 & setsid sleep 1000 & while :; do sleep 1000; done";
    stage.service(json!({"command": ["sh", "-c", script], "stopTimeoutSeconds": 0.3}));
    stage.up().ok();
    eventually("its children run", || stage.marked().len() >= 4);
    assert_eq!(stage.living().len(), 1, "children aren't replicas");
    stage.destroy().ok();
    assert!(stage.marked().is_empty());
}

#[test]
fn unhealthy_is_kept_and_repaired() {
    let stage = Stage::new();
    let (port, wrong) = (free_port(), free_port());
    let service = |listens: u16| {
        stage.service(json!({
            "name": "web", "command": sample(), "env": {"SAMPLE_PORT": listens.to_string()},
            "health": {"http": {"port": port, "path": "/ready"}, "timeoutSeconds": if listens == port { 30 } else { 1 }},
        }));
    };
    service(wrong);
    let said = stage.up().failed();
    assert!(said.contains("not healthy") && said.contains("logs"), "{said}");
    let kept = stage.resource("web");
    assert_eq!(kept["id"], "web");
    assert_eq!(kept["outputs"]["status"], "unhealthy");
    assert!(kept["initErrors"][0].as_str().unwrap().contains("not healthy"));
    let first = stage.living();
    assert_eq!(first.len(), 1);

    stage.up().failed();
    assert_ne!(stage.living(), first, "the same inputs again are a fresh start");
    service(port);
    stage.up().ok();
    assert_eq!(stage.marked(), stage.living());
    assert_eq!(stage.services()[0].health, Verdict::Healthy);
    assert_eq!(stage.resource("web")["outputs"]["endpoint"], format!("http://127.0.0.1:{port}/ready"));
    assert!(stage.resource("web")["initErrors"].is_null());
    stage.unchanged();
}

#[test]
fn a_halted_process_is_seen_by_refresh_and_started_anew() {
    let stage = Stage::new();
    let port = free_port();
    stage.service(json!({
        "command": sample(), "env": {"SAMPLE_PORT": port}, "stopTimeoutSeconds": 5,
        "health": {"http": {"url": format!("http://127.0.0.1:{port}")}},
    }));
    stage.up().ok();
    let before = stage.living();
    let pid = rustix::process::Pid::from_raw(before[0].try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    stage.refresh().ok();
    assert_eq!(stage.resource("web")["outputs"]["status"], "unhealthy");
    stage.up().ok();
    assert_ne!(stage.living(), before);
    assert_eq!(stage.marked(), stage.living());
    assert_eq!(stage.services()[0].health, Verdict::Healthy);
}

#[test]
fn one_service_can_use_what_isnt_known_of_another_before() {
    let stage = Stage::new();
    let service = |env: serde_json::Value| {
        json!({"type": "local:index:Service", "properties": {
            "command": ["sleep", "1000"], "env": env,
        }})
    };
    stage.program(
        json!({
            "one": service(json!({"STAGE": stage.path()})),
            "two": service(json!({"STAGE": stage.path(), "OTHER": "pid ${one.pids[0].pid}"})),
        }),
        json!({}),
    );
    stage.preview().ok();
    stage.up().ok();
    assert_eq!(stage.marked().len(), 2);
    let others = stage.marked().into_iter().filter(|pid| environment(*pid).contains_key("OTHER"));
    assert_eq!(others.count(), 1);
    stage.unchanged();
}

#[test]
fn a_forced_replacement_keeps_what_it_adopted() {
    let stage = Stage::new();
    stage.program(
        json!({
            "web": {"type": "local:index:Service", "properties": {
                "name": "web", "command": ["sleep", "1000"], "env": {"STAGE": stage.path()},
            }},
            "f": {"type": "local:index:File", "properties": {"path": "f", "content": "x"}},
        }),
        json!({}),
    );
    stage.up().ok();
    for _ in 0..2 {
        for name in ["web", "f"] {
            let urn = stage.resource(name)["urn"].as_str().unwrap().to_owned();
            stage.pulumi(&["up", "--yes", "--skip-preview", "-s", "dev", "--replace", &urn]).ok();
        }
        assert_eq!(stage.living().len(), 1);
        assert_eq!(stage.marked(), stage.living());
        assert!(stage.root().join("files/f").exists());
        stage.refresh().ok();
        stage.unchanged();
    }
    stage.destroy().ok();
    assert!(stage.marked().is_empty());
    assert!(!stage.root().join("files/f").exists());
}

#[test]
fn each_replica_can_have_a_port_of_its_own() {
    let stage = Stage::new();
    let port = free_port();
    let service = |replicas: u32| {
        stage.service(json!({
            "command": sample(), "replicas": replicas, "env": {"SAMPLE_PORT": port, "SAMPLE_EACH": true},
            "health": {"tcp": {"port": port}, "perReplica": true},
        }));
    };
    service(1);
    stage.up().ok();
    let first = stage.living();
    service(2);
    stage.up().ok();
    assert!(stage.living().contains(&first[0]));
    assert_eq!(stage.services()[0].endpoints.len(), 2);
    assert_eq!(stage.services()[0].health, Verdict::Healthy);
    stage.unchanged();
}

#[test]
fn a_command_that_cant_start_or_ends_at_once_is_told() {
    let stage = Stage::new();
    stage.service(json!({"command": ["no-such-program-anywhere"]}));
    let said = stage.up().failed();
    assert!(said.contains("no-such-program-anywhere") && said.contains("PATH"), "{said}");
    assert!(stage.resource("web").is_null(), "nothing is left of it");
    assert!(stage.services().is_empty());

    stage.service(json!({"command": ["false"]}));
    let said = stage.up().failed();
    assert!(said.contains("ended right after its start"), "{said}");
    stage.service(json!({"command": ["sleep", "1000"]}));
    stage.up().ok();
    assert_eq!(stage.living().len(), 1);
}

#[test]
fn strange_names_are_kept_apart() {
    let stage = Stage::new();
    let names = ["a/b", "a%2Fb", "a::b", "..", "\"quoted\"", "back\\slash", "grüße 🦀", "$(id)"];
    let resources: serde_json::Map<_, _> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let properties = json!({"name": name, "command": ["sleep", "1000"], "env": {"STAGE": stage.path()}});
            (format!("r{index}"), json!({"type": "local:index:Service", "properties": properties}))
        })
        .chain([(
            "strange::'n\"ä\\me".to_owned(),
            json!({"type": "local:index:Service", "properties": {"command": ["sleep", "1000"], "env": {"STAGE": stage.path()}}}),
        )])
        .collect();
    stage.program(resources.into(), json!({}));
    stage.up().ok();
    let services = stage.services();
    let found: BTreeSet<_> = services.iter().map(|service| service.name.clone()).collect();
    assert!(names.iter().all(|name| found.contains(*name)), "{found:?}");
    assert_eq!(found.len(), names.len() + 1);
    assert!(services.iter().all(|service| service.living.len() == 1));
    stage.refresh().ok();
    stage.unchanged();
    stage.destroy().ok();
    assert!(stage.marked().is_empty());
    assert_eq!(std::fs::read_dir(stage.root().join("services")).unwrap().count(), 0);
}

#[test]
fn a_program_whose_name_the_kernel_cuts_in_a_letter_is_seen() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::new();
    let program = stage.path().join("aaaaaaaaaaaaaaü)");
    std::fs::write(&program, "#!/bin/sh\nsleep 1000\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    stage.service(json!({"command": [program], "replicas": 2}));
    stage.up().ok();
    assert_eq!(stage.living().len(), 2);
    stage.refresh().ok();
    stage.unchanged();
    stage.destroy().ok();
    assert!(stage.marked().is_empty());
}

#[test]
fn imported_with_its_secrets_by_another_project() {
    let mut stage = Stage::new();
    let properties = json!({
        "name": "web", "command": ["sleep", "1000"], "replicas": 2, "version": "1.10",
        "secretEnv": {"TOKEN": {"fn::secret": "hush-hush"}},
    });
    stage.service(properties.clone());
    stage.up().ok();
    let pids = stage.living();
    assert_eq!(environment(pids[0])["TOKEN"], "hush-hush");

    stage.project = "second".to_owned();
    stage.program(json!({}), json!({}));
    std::fs::remove_file(stage.path().join("program/Pulumi.dev.yaml")).unwrap();
    stage.pulumi(&["stack", "init", "dev"]).ok();
    stage.service(properties.clone());
    let said = stage.up().failed();
    assert!(said.contains("already belongs to") && said.contains("import"), "{said}");
    let arguments =
        ["import", "local:index:Service", "web", "web", "--yes", "--generate-code=false", "--protect=false"];
    stage.pulumi(&arguments).ok();
    stage.unchanged();
    stage.up().ok();
    assert_eq!(stage.living(), pids);
    stage.nowhere_but_the_program("hush-hush");
    stage.destroy().ok();
    assert!(stage.marked().is_empty());
}

#[test]
fn mistakes_name_their_property() {
    let stage = Stage::new();
    for (properties, property) in [
        (json!({"command": ["sleep", "1"], "replicas": -1}), "replicas"),
        (json!({"command": []}), "command"),
        (json!({"command": ["sleep", "1"], "env": {"RUNTIME_CLOUD_RUN": "x"}}), "env.RUNTIME_CLOUD_RUN"),
        (json!({"command": ["sleep", {"fn::secret": "s"}]}), "command"),
        (json!({"command": ["sleep", "1"], "health": {"tcp": {"port": 70000}}}), "health.tcp.port"),
    ] {
        stage.service(properties);
        let said = stage.preview().failed();
        assert!(said.contains(property), "{property} isn't in {said}");
    }
    assert!(stage.services().is_empty());
}
