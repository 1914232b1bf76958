//! A host process and its command line.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::poll::poll;
use crate::repository::Repository;

/// What a command answered.
#[derive(Debug)]
pub struct Answer {
    /// Its exit code.
    pub code: i32,
    /// Its output.
    pub out: String,
    /// What it said.
    pub err: String,
}

impl Answer {
    /// The output as JSON.
    #[expect(clippy::panic, reason = "a test whose command answers no JSON has failed")]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("no JSON ({e}): {self:?}"))
    }
}

/// A host on a data folder; it and what it started end with the test.
pub struct HostProcess {
    data: PathBuf,
    _folder: Option<tempfile::TempDir>,
    child: Option<Child>,
}

fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("RUNTIME_CLOUD_TEST_BINARY") {
        return path.into();
    }
    // Beside the test's own program: target/<profile>/deps/x -> target/<profile>/runtime-cloud.
    let mut path = std::env::current_exe().unwrap_or_default();
    path.pop();
    path.pop();
    path.join("runtime-cloud")
}

fn search_path() -> String {
    let path = std::env::var_os("PATH").and_then(|p| p.into_string().ok()).unwrap_or_default();
    match std::env::var_os("RUNTIME_CLOUD_TEST_PULUMI").and_then(|p| p.into_string().ok()) {
        Some(pulumi) => format!("{pulumi}:{path}"),
        None => path,
    }
}

#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::new_without_default,
    reason = "a test whose host can't be driven has failed"
)]
impl HostProcess {
    /// A host that was never started, on a new folder.
    pub fn new() -> HostProcess {
        let folder = tempfile::tempdir().unwrap();
        HostProcess { data: folder.path().join("data"), _folder: Some(folder), child: None }
    }

    /// A running host on a new folder.
    pub fn started() -> HostProcess {
        let mut host = HostProcess::new();
        host.start(&[]);
        host
    }

    /// Its folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Writes settings.json.
    pub fn settings(&self, settings: &Value) {
        std::fs::create_dir_all(&self.data).unwrap();
        std::fs::write(self.data.join("settings.json"), settings.to_string()).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command.env("PATH", search_path()).env("USER", "ada").arg("--data").arg(&self.data);
        command
    }

    /// Starts it and waits until it listens.
    pub fn start(&mut self, env: &[(&str, &str)]) {
        if !self.try_start(env) {
            panic!("the host did not start; see its messages above");
        }
    }

    /// Starts it; false where it ends before it listens.
    pub fn try_start(&mut self, env: &[(&str, &str)]) -> bool {
        std::fs::create_dir_all(&self.data).unwrap();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = self.command();
        command.arg("up").envs(env.iter().copied()).env("RUST_LOG", "info");
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            child.wait().unwrap();
            return false;
        }
        self.child = Some(child);
        true
    }

    /// Its resident memory in kB.
    pub fn resident(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid().as_raw_nonzero())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// What the host said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.data.join("host.log")
    }

    fn pid(&self) -> Pid {
        let id = self.child.as_ref().map(Child::id).unwrap();
        Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        kill_process(self.pid(), Signal::KILL).unwrap();
        self.child.take().unwrap().wait().unwrap();
    }

    /// Asks it to stop; its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.child.take().unwrap().wait().unwrap().code()
    }

    /// Waits until it has ended by itself.
    pub fn ended(&mut self) {
        self.child.take().unwrap().wait().unwrap();
    }

    /// Whether it still runs.
    pub fn lives(&mut self) -> bool {
        self.child.as_mut().is_some_and(|c| c.try_wait().unwrap().is_none())
    }

    /// Runs a command.
    pub fn cli(&self, args: &[&str]) -> Answer {
        self.cli_with(args, "")
    }

    /// Runs a command with an input.
    pub fn cli_with(&self, args: &[&str], input: &str) -> Answer {
        self.cli_with_bytes(args, input.as_bytes())
    }

    /// Runs a command with an input that may be no text.
    pub fn cli_with_bytes(&self, args: &[&str], input: &[u8]) -> Answer {
        let mut command = self.command();
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let out = child.wait_with_output().unwrap();
        Answer {
            code: out.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&out.stdout).into_owned(),
            err: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }

    /// Runs a command whose output nobody reads.
    pub fn unread(&self, args: &[&str]) -> Answer {
        let mut command = self.command();
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        Answer {
            code: out.status.code().unwrap_or(-1),
            out: String::new(),
            err: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, args: &[&str]) -> Answer {
        let answer = self.cli(args);
        assert_eq!(answer.code, 0, "{args:?}: {answer:?}\n{}", self.log());
        answer
    }

    /// Creates an environment.
    pub fn environment(&self, name: &str, class: &str) {
        self.ok(&["environments", "create", name, "--class", class]);
    }

    /// Promotes the newest commit of a repository's `app`; the run's id.
    pub fn promote(&self, environment: &str, repository: &Repository, more: &[&str]) -> String {
        let path = repository.path();
        let mut args = vec!["--json", "promote", "--environment", environment, "--path", "app"];
        args.extend(["--repository", path.to_str().unwrap()]);
        args.extend(more);
        let answer = self.ok(&args).json();
        answer["provisioningRunId"].as_str().unwrap().to_owned()
    }

    /// Plans by hand; the run's id.
    pub fn plan(&self, environment: &str, repository: &Repository, more: &[&str]) -> String {
        let path = repository.path();
        let mut args = vec!["--json", "plan", "--environment", environment, "--path", "app"];
        args.extend(["--repository", path.to_str().unwrap()]);
        args.extend(more);
        let answer = self.ok(&args).json();
        answer["provisioningRunId"].as_str().unwrap().to_owned()
    }

    /// A run as it is now; Null where there is none.
    pub fn run(&self, run: &str) -> Value {
        let answer = self.cli(&["--json", "runs", "show", run]);
        if answer.code == 0 { answer.json() } else { Value::Null }
    }

    /// All runs.
    pub fn runs(&self) -> Vec<Value> {
        self.ok(&["--json", "runs", "list", "--limit", "1000"]).json().as_array().cloned().unwrap()
    }

    /// Waits until a run is in one of these states.
    pub fn state(&self, run: &str, states: &[&str]) -> Value {
        poll(&format!("run {run} to be {states:?}; it is {}", self.run(run)), || {
            let view = self.run(run);
            states.contains(&view["state"].as_str().unwrap_or_default()).then_some(view)
        })
    }

    /// Waits until a run has ended.
    pub fn end(&self, run: &str) -> Value {
        self.state(run, &["Applied", "Failed", "Rejected", "Cancelled"])
    }

    /// Waits until a run has ended as Applied.
    pub fn applied(&self, run: &str) -> Value {
        let end = self.end(run);
        assert_eq!(end["state"], "Applied", "{end}\n{}", self.log());
        end
    }

    /// Waits until a run has failed for this reason.
    pub fn failed(&self, run: &str, reason: &str) -> Value {
        let end = self.end(run);
        assert_eq!(end["failure"]["reason"], reason, "{end}");
        end
    }

    /// Approves as another person.
    pub fn approve(&self, run: &str) -> Answer {
        self.cli(&["--as", "ben", "--json", "approve", run])
    }

    /// Waits until the run's last event has left; the events follow their commit.
    pub fn left(&self, name: &str, run: &str) -> Vec<Value> {
        poll(&format!("{name} of run {run}"), || {
            Some(self.events(name, run)).filter(|events| !events.is_empty())
        })
    }

    /// Every event of a topic's end, such as `provisioning-applied`, about a run.
    pub fn events(&self, name: &str, run: &str) -> Vec<Value> {
        let all = self.ok(&["--json", "events", "list", "--limit", "1000"]).json();
        let of = |e: &&Value| {
            let envelope = &e["envelope"];
            envelope["type"].as_str().is_some_and(|t| t.ends_with(name))
                && (run.is_empty() || envelope["data"]["provisioningRunId"] == json!(run))
        };
        all.as_array().unwrap().iter().filter(of).map(|e| e["envelope"].clone()).collect()
    }

    /// A receipt of a run.
    pub fn receipt(&self, run: &str, which: &str) -> Value {
        self.ok(&["--json", "receipts", "show", run, which]).json()
    }

    /// The chain of an environment holds.
    pub fn verified(&self, environment: &str) {
        let answer = self.cli(&["receipts", "verify", environment]);
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    /// Everything below the data folder that is a file.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = vec![];
        let mut folders = vec![self.data.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    found.push(entry.path());
                }
            }
        }
        found
    }

    /// Pids of processes whose command line holds a text.
    pub fn processes(&self, text: &str) -> Vec<i32> {
        let mut found = vec![];
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(text) && line.contains(&*self.data.to_string_lossy()) {
                found.push(pid);
            }
        }
        found
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
        // Supervisors and what they run outlive the host on purpose.
        for pid in self.processes_quietly() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let folders = |p: PathBuf| std::fs::read_dir(p).into_iter().flatten().flatten().map(|e| e.path());
        for tenant in folders(self.data.join("local")) {
            for environment in folders(tenant) {
                drop(local::stop_all(&environment));
            }
        }
    }
}

impl HostProcess {
    fn processes_quietly(&self) -> Vec<i32> {
        let mut all = self.processes("__supervise");
        all.extend(self.processes("pulumi"));
        all
    }
}
