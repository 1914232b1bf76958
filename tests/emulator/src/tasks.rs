//! The tasks of an emulated ECS. The emulator keeps their records and starts nothing; this starts each in a sandbox as
//! Fargate would: the image's root file system, nothing else of this machine's, no rights, a disk of its own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::extract::{Path as Part, State};
use axum::routing::get;
use serde_json::{Value, json};

use crate::Emulator;

/// Mounts what a container has, then gives up every right. `$ROOT` is the image, `$SHARED` what the test shares.
const SANDBOX: &str = "set -e
mount --bind \"$ROOT\" \"$ROOT\"
mount -o remount,bind,ro \"$ROOT\"
mount -t tmpfs -o mode=1777 disk \"$ROOT/tmp\"
mkdir -p \"$ROOT$SHARED\"
mount --bind \"$SHARED\" \"$ROOT$SHARED\"
mount -t proc proc \"$ROOT/proc\"
mount --bind /dev \"$ROOT/dev\"
exec chroot $AS \"$ROOT\" /runner \"$@\"";

/// Starts the tasks of one cluster.
pub struct Tasks<'a> {
    emulator: &'a Emulator,
    cluster: String,
    root: PathBuf,
    shared: PathBuf,
    metadata: u16,
    arns: Arc<Mutex<BTreeMap<String, String>>>,
}

/// A task that was started.
pub struct RunningTask {
    /// Its name in ECS.
    pub arn: String,
    /// What it was started with.
    pub overrides: Value,
    child: Child,
    log: PathBuf,
}

impl<'a> Tasks<'a> {
    /// Of a cluster, in that root file system; the folder `shared`, below /tmp, is seen by tasks too.
    pub fn of(emulator: &'a Emulator, cluster: &str, root: &Path, shared: &Path) -> Tasks<'a> {
        let arns = Arc::<Mutex<BTreeMap<String, String>>>::default();
        let metadata = serve(Arc::clone(&arns));
        let (root, shared) = (root.to_owned(), shared.to_owned());
        Tasks { emulator, cluster: cluster.to_owned(), root, shared, metadata, arns }
    }

    /// Tasks that ECS was asked for, living ones alone.
    pub fn wanted(&self) -> Vec<String> {
        let asked = json!({"cluster": self.cluster, "desiredStatus": "RUNNING"});
        let listed = self.emulator.ecs("ListTasks", &asked);
        listed["taskArns"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|a| a.as_str().map(str::to_owned))
            .collect()
    }

    /// What ECS knows of a task.
    pub fn described(&self, arn: &str) -> Value {
        let found = self.emulator.ecs("DescribeTasks", &json!({"cluster": self.cluster, "tasks": [arn]}));
        found["tasks"][0].clone()
    }

    /// Starts a task's container.
    pub fn start(&self, arn: &str) -> RunningTask {
        let task = self.described(arn);
        let definition = json!({"taskDefinition": task["taskDefinitionArn"]});
        let definition = self.emulator.ecs("DescribeTaskDefinition", &definition);
        let container = &definition["taskDefinition"]["containerDefinitions"][0];
        let overridden = &task["overrides"]["containerOverrides"][0];
        assert_eq!(container["name"], overridden["name"]);
        let id = arn.rsplit('/').next().unwrap_or_default().to_owned();
        self.arns.lock().unwrap().insert(id.clone(), arn.to_owned());
        let log = self.emulator.folder().join(format!("task-{id}.log"));
        let output = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        // Whoever is not root is root of a world of their own, and can't become another user in it.
        let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child"]);
        command.args(if root { &[][..] } else { &["--user", "--map-root-user"] });
        command.args(["/bin/sh", "-c", SANDBOX, "task"]);
        command.args(texts(&container["command"]));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("ROOT", &self.root).env("SHARED", &self.shared);
        command.env("AS", if root { "--userspec=65532:65532" } else { "--groups=" });
        for variable in [&container["environment"], &overridden["environment"]] {
            for one in variable.as_array().into_iter().flatten() {
                command.env(one["name"].as_str().unwrap(), one["value"].as_str().unwrap());
            }
        }
        command.envs([
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_ENDPOINT_URL", self.emulator.url()),
            ("ECS_CONTAINER_METADATA_URI_V4", format!("http://127.0.0.1:{}/v4/{id}", self.metadata)),
        ]);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.spawn().expect("unshare can be started");
        RunningTask { arn: arn.to_owned(), overrides: task["overrides"].clone(), child, log }
    }

    /// ECS has seen the end of a task: what it tells then, to the queue that the rule of the stack fills.
    pub fn stopped(&self, task: &RunningTask, queue: &str) {
        self.emulator.ecs("StopTask", &json!({"cluster": self.cluster, "task": task.arn, "reason": "ended"}));
        let told = json!({"source": "aws.ecs", "detail-type": "ECS Task State Change",
                          "detail": {"taskArn": task.arn, "lastStatus": "STOPPED", "overrides": task.overrides}});
        let url = format!("{}{queue}", self.emulator.queue_url_prefix());
        self.emulator.sqs("SendMessage", &json!({"QueueUrl": url, "MessageBody": told.to_string()}));
    }
}

impl RunningTask {
    /// Its end; whether it ended well.
    pub fn wait(&mut self) -> bool {
        self.child.wait().is_ok_and(|status| status.success())
    }

    /// It dies, with everything in it: the kernel ends a container with its first process. That one gave up its rights,
    /// and so it outlives whoever has started it.
    pub fn kill(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        let id = self.child.id();
        let first = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let first: Vec<&str> = first.split_whitespace().collect();
        if first.is_empty() {
            drop(self.child.kill());
        } else {
            drop(Command::new("kill").arg("-KILL").args(first).status());
        }
        drop(self.child.wait());
    }

    /// What it said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.kill();
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|t| t.as_str().map(str::to_owned)).collect()
}

/// Tells tasks their names, as ECS does.
fn serve(arns: Arc<Mutex<BTreeMap<String, String>>>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = axum::Router::new().route("/v4/{id}/task", get(about)).with_state(arns);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            axum::serve(tokio::net::TcpListener::from_std(listener).expect("a port"), app).await
        })
    });
    port
}

async fn about(
    State(arns): State<Arc<Mutex<BTreeMap<String, String>>>>,
    Part(id): Part<String>,
) -> axum::Json<Value> {
    let arn = arns.lock().unwrap().get(&id).cloned();
    axum::Json(json!({"TaskARN": arn, "KnownStatus": "RUNNING"}))
}
