//! A folder with a program, a state and an environment's root, and Pulumi to work on them.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use runtime_cloud_local::{ServiceStatus, list, stop_all};
use serde_json::{Value, json};

pub const PASSPHRASE: &str = "the-passphrase-of-the-state";

pub struct Stage {
    folder: tempfile::TempDir,
    pub project: String,
}

/// What a command of Pulumi's said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub text: String,
}

impl Said {
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "pulumi failed:\n{}", self.text);
        self.text
    }

    pub fn failed(self) -> String {
        assert!(self.code.is_some_and(|code| code != 0), "pulumi should have failed:\n{}", self.text);
        self.text
    }
}

impl Stage {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("local-").tempdir().unwrap();
        for name in ["program", "state", "home", "plugin"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let plugin = folder.path().join("plugin/pulumi-resource-local");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pulumi-resource-local"), plugin).unwrap();
        let stage = Self { folder, project: "sample".to_owned() };
        stage.program(json!({}), json!({}));
        stage.pulumi(&["stack", "init", "dev"]).ok();
        stage
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn root(&self) -> PathBuf {
        self.path().join("root")
    }

    pub fn program(&self, resources: Value, outputs: Value) {
        let program = json!({
            "name": self.project, "runtime": "yaml",
            "plugins": {"providers": [{"name": "local", "path": self.path().join("plugin")}]},
            "resources": resources, "outputs": outputs,
        });
        // JSON is YAML.
        fs::write(self.path().join("program/Pulumi.yaml"), program.to_string()).unwrap();
    }

    /// A program of one service, called `web`.
    pub fn service(&self, mut properties: Value) {
        properties["env"]["STAGE"] = json!(self.path());
        self.program(
            json!({"web": {"type": "local:index:Service", "properties": properties}}),
            json!({"pids": "${web.pids}", "status": "${web.status}"}),
        );
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let tools = tools();
        let path = std::env::join_paths(
            [tools.clone()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut command = Command::new(tools.join("pulumi"));
        command
            .args(arguments)
            .args(["--non-interactive", "-C"])
            .arg(self.path().join("program"))
            .env("PATH", path.unwrap())
            .env("PULUMI_HOME", self.path().join("home"))
            .env("PULUMI_BACKEND_URL", format!("file://{}", self.path().join("state").display()))
            .env("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
            .env("PULUMI_SKIP_UPDATE_CHECK", "true")
            .env("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
            .env("RUNTIME_CLOUD_LOCAL_ROOT", self.root())
            .env("RUNTIME_CLOUD_RUN", "run-1")
            .stdin(Stdio::null());
        command
    }

    pub fn pulumi(&self, arguments: &[&str]) -> Said {
        said(&mut self.command(arguments))
    }

    /// Starts it with its output in a file.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let output = fs::File::create(self.path().join("started.txt")).unwrap();
        self.command(arguments).stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap()
    }

    pub fn up(&self) -> Said {
        self.pulumi(&["up", "--yes", "--skip-preview", "-s", "dev"])
    }

    pub fn preview(&self) -> Said {
        self.pulumi(&["preview", "--diff", "-s", "dev"])
    }

    pub fn unchanged(&self) {
        self.pulumi(&["preview", "--diff", "--expect-no-changes", "-s", "dev"]).ok();
    }

    pub fn refresh(&self) -> Said {
        self.pulumi(&["refresh", "--yes", "--skip-preview", "-s", "dev"])
    }

    pub fn destroy(&self) -> Said {
        self.pulumi(&["destroy", "--yes", "--skip-preview", "-s", "dev"])
    }

    pub fn raw_state(&self) -> String {
        fs::read_to_string(self.path().join(format!("state/.pulumi/stacks/{}/dev.json", self.project)))
            .unwrap()
    }

    /// The state of one resource, by its name; null when there is none.
    pub fn resource(&self, name: &str) -> Value {
        let state: Value = serde_json::from_str(&self.raw_state()).unwrap();
        let resources = state["checkpoint"]["latest"]["resources"].as_array().cloned().unwrap_or_default();
        let found = resources.into_iter().find(|resource| {
            let urn = resource["urn"].as_str().unwrap();
            urn.contains("::local:index:") && urn.ends_with(&format!("::{name}"))
        });
        found.unwrap_or_default()
    }

    pub fn services(&self) -> Vec<ServiceStatus> {
        list(&self.root()).unwrap()
    }

    /// The living pids of the one service.
    pub fn living(&self) -> Vec<u32> {
        let services = self.services();
        services.first().map(|one| one.living.iter().map(|id| id.pid).collect()).unwrap_or_default()
    }

    /// Every living process that belongs to this stage's services, whoever knows of it.
    pub fn marked(&self) -> Vec<u32> {
        let stage = self.path().to_str().unwrap().to_owned();
        processes(|environment| {
            environment.contains_key("RUNTIME_CLOUD_SERVICE") && environment.get("STAGE") == Some(&stage)
        })
    }

    /// The provider's processes that work for this stage.
    pub fn plugins(&self) -> Vec<u32> {
        let root = self.root().to_str().unwrap().to_owned();
        let binary = fs::canonicalize(env!("CARGO_BIN_EXE_pulumi-resource-local")).unwrap();
        let mut found = processes(|environment| environment.get("RUNTIME_CLOUD_LOCAL_ROOT") == Some(&root));
        found.retain(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == binary));
        found
    }

    /// Fails if any file of this stage holds the text.
    pub fn nowhere(&self, text: &str) {
        let mut left = vec![self.path().to_owned()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                } else if entry.file_type().unwrap().is_file() {
                    let bytes = fs::read(entry.path()).unwrap();
                    let found = bytes.windows(text.len()).any(|window| window == text.as_bytes());
                    assert!(!found, "{} holds {text:?}", entry.path().display());
                }
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for pid in self.plugins() {
            kill(pid);
        }
        if let Err(error) = stop_all(&self.root()) {
            eprintln!("processes may be left: {error}");
        }
    }
}

fn tools() -> PathBuf {
    let folders: Vec<PathBuf> = match std::env::var_os("RUNTIME_CLOUD_TEST_PULUMI") {
        Some(folder) => vec![folder.into()],
        None => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
    };
    let found = folders.into_iter().find(|folder| folder.join("pulumi").is_file());
    found.expect(
        "these tests need Pulumi: set RUNTIME_CLOUD_TEST_PULUMI to the folder that holds `pulumi` and \
         `pulumi-language-yaml`, or put both on PATH",
    )
}

pub fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Said { code: output.status.code(), text }
}

pub fn environment(pid: u32) -> BTreeMap<String, String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .split('\0')
        .filter_map(|entry| entry.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// A zombie has no environment, so it isn't found.
fn processes(wanted: impl Fn(&BTreeMap<String, String>) -> bool) -> Vec<u32> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let mut found: Vec<u32> = pids.filter(|pid| wanted(&environment(*pid))).collect();
    found.sort_unstable();
    found
}

pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Waits until something holds, and fails when it never does.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "never came true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Below the ports that the system hands out by itself, so that nobody takes it, or the one behind it, meanwhile.
pub fn free_port() -> u16 {
    static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % 400).unwrap() * 50;
    let free = |port: &u16| [*port, port + 1].iter().all(|p| TcpListener::bind(("127.0.0.1", *p)).is_ok());
    std::iter::repeat_with(|| 10_000 + own + NEXT.fetch_add(2, std::sync::atomic::Ordering::Relaxed))
        .find(free)
        .unwrap()
}

/// The command of a service that answers HTTP on SAMPLE_PORT.
pub fn sample() -> Value {
    json!([std::env::current_exe().unwrap(), "sample_service", "--exact", "--nocapture"])
}
