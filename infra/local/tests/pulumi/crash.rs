//! Deaths in the middle. Nothing may be left that nobody owns, and nothing may be there twice.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use pulumi_gestalt_proto::pulumi::pulumirpc::CreateRequest;
use pulumi_gestalt_proto::pulumi::pulumirpc::resource_provider_client::ResourceProviderClient;
use rustix::fs::{FileType, Mode};
use serde_json::json;

use crate::stage::{Stage, eventually, free_port, kill};

/// Makes the next Create hang after it started replica 0: opening the log of replica 1 waits for a reader.
pub fn hang_at_the_second_replica(stage: &Stage) -> std::path::PathBuf {
    let logs = stage.root().join("services/web/logs");
    fs::create_dir_all(&logs).unwrap();
    let pipe = logs.join("1.log");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    pipe
}

#[test]
fn a_create_that_died_halfway_is_adopted() {
    let stage = Stage::new();
    let pipe = hang_at_the_second_replica(&stage);
    stage.service(json!({"name": "web", "command": ["sleep", "1000"], "replicas": 3}));
    let mut up = stage.start(&["up", "--yes", "--skip-preview", "-s", "dev"]);
    eventually("one of three runs", || stage.marked().len() == 1);
    let first = stage.marked();
    stage.plugins().into_iter().for_each(kill);
    assert!(!up.wait().unwrap().success());
    assert!(stage.resource("web").is_null());
    assert_eq!(stage.marked(), first);

    // Even if the death came before the process was noted down.
    let record = stage.root().join("services/web/record.json");
    let mut noted: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    noted["processes"] = json!([]);
    fs::write(&record, noted.to_string()).unwrap();
    fs::remove_file(pipe).unwrap();

    stage.up().ok();
    let living = stage.living();
    assert_eq!(living.len(), 3);
    assert_eq!(living[0], first[0], "the survivor is adopted");
    assert_eq!(stage.marked().len(), 3, "nothing is there twice");
    stage.unchanged();
}

#[test]
fn leftovers_of_other_inputs_are_not_adopted() {
    let stage = Stage::new();
    let pipe = hang_at_the_second_replica(&stage);
    stage.service(json!({"name": "web", "command": ["sleep", "1000"], "replicas": 2}));
    let mut up = stage.start(&["up", "--yes", "--skip-preview", "-s", "dev"]);
    eventually("one of two runs", || stage.marked().len() == 1);
    let first = stage.marked();
    stage.plugins().into_iter().for_each(kill);
    up.wait().unwrap();
    fs::remove_file(pipe).unwrap();

    stage.service(json!({"name": "web", "command": ["sleep", "2000"], "replicas": 1}));
    stage.up().ok();
    assert_eq!(stage.living().len(), 1);
    assert_ne!(stage.living(), first);
    assert_eq!(stage.marked(), stage.living());
}

#[test]
fn an_update_that_died_halfway_is_finished() {
    let stage = Stage::new();
    let service = |version: &str| {
        stage
            .service(json!({"name": "web", "command": ["sleep", "1000"], "replicas": 3, "version": version}));
    };
    service("one");
    stage.up().ok();
    let old = stage.living();
    fs::remove_file(stage.root().join("services/web/logs/1.log")).unwrap();
    let pipe = hang_at_the_second_replica(&stage);
    service("two");
    let mut up = stage.start(&["up", "--yes", "--skip-preview", "-s", "dev"]);
    eventually("one new process is alone", || {
        let marked = stage.marked();
        marked.len() == 1 && !old.contains(&marked[0])
    });
    let first = stage.marked();
    stage.plugins().into_iter().for_each(kill);
    up.wait().unwrap();
    fs::remove_file(pipe).unwrap();

    stage.up().ok();
    let living = stage.living();
    assert_eq!(living.len(), 3);
    assert_eq!(living[0], first[0]);
    assert_eq!(stage.marked().len(), 3);
    assert_eq!(stage.services()[0].version.as_deref(), Some("two"));
    stage.unchanged();
}

#[test]
fn the_plugin_ends_after_its_engine_and_its_services_stay() {
    let stage = Stage::new();
    let port = free_port();
    let service = |health: bool| {
        let mut properties = json!({"name": "web", "command": ["sleep", "1000"], "replicas": 2});
        if health {
            properties["health"] = json!({"tcp": {"port": port}, "timeoutSeconds": 600});
        }
        stage.service(properties);
    };
    service(true);
    let mut up = stage.start(&["up", "--yes", "--skip-preview", "-s", "dev"]);
    eventually("both run", || stage.living().len() == 2);
    let living = stage.living();
    up.kill().unwrap();
    up.wait().unwrap();
    eventually("the plugin ends", || stage.plugins().is_empty());
    assert_eq!(stage.marked(), living);

    stage.pulumi(&["cancel", "--yes", "-s", "dev"]).ok();
    service(false);
    stage.up().ok();
    assert_eq!(stage.living(), living, "the next run adopts them");
    assert_eq!(stage.marked(), living);
}

struct Plugin {
    child: Child,
    port: u16,
}

impl Plugin {
    fn start(stage: &Stage) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pulumi-resource-local"))
            .arg("127.0.0.1:1")
            .env("RUNTIME_CLOUD_LOCAL_ROOT", stage.root())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_plugins_make_one_service() {
    let stage = Stage::new();
    let text = |value: &str| prost_types::Value::from(value.to_owned());
    let inputs = prost_types::Struct {
        fields: [
            ("name".to_owned(), text("web")),
            ("replicas".to_owned(), prost_types::Value::from(3.0)),
            ("command".to_owned(), prost_types::Value::from(vec![text("sleep"), text("1000")])),
            (
                "env".to_owned(),
                prost_types::Value {
                    kind: Some(prost_types::value::Kind::StructValue(prost_types::Struct {
                        fields: [("STAGE".to_owned(), text(stage.path().to_str().unwrap()))].into(),
                    })),
                },
            ),
        ]
        .into(),
    };
    let create = |port: u16| {
        let request = CreateRequest {
            urn: "urn:pulumi:dev::sample::local:index:Service::web".to_owned(),
            r#type: "local:index:Service".to_owned(),
            properties: Some(inputs.clone()),
            ..Default::default()
        };
        tokio::spawn(async move {
            let mut client =
                ResourceProviderClient::connect(format!("http://127.0.0.1:{port}")).await.unwrap();
            client.create(request).await.unwrap().into_inner().properties.unwrap().fields["pids"].clone()
        })
    };
    let plugins = [Plugin::start(&stage), Plugin::start(&stage)];
    let (one, other) = (create(plugins[0].port), create(plugins[1].port));
    assert_eq!(one.await.unwrap(), other.await.unwrap());
    assert_eq!(stage.marked().len(), 3);

    // The services' parent reaps them, and a dead one that isn't reaped yet counts as dead.
    kill(stage.living()[0]);
    eventually("it counts as dead", || stage.living().len() == 2);
}
