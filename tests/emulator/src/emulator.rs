//! The emulator: DynamoDB, SQS, EventBridge, S3, Lambda and the rest in one process.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::time::Duration;

use crate::Recorder;
use crate::programs::{free_port, healthy, tied};

/// A running emulator; it ends with the test.
pub struct Emulator {
    folder: tempfile::TempDir,
    child: Mutex<Child>,
    port: u16,
    passed: Mutex<Duration>,
}

/// Its clock can be moved on: queues keep messages hidden for minutes, and no test waits for them.
const CLOCK: &str = "import os, time
_real = time.time
def _moved():
    try:
        with open(os.environ['EMULATOR_CLOCK']) as f:
            return _real() + float(f.read() or 0)
    except OSError:
        return _real()
time.time = _moved
";

impl Emulator {
    /// Starts one with nothing in it.
    pub fn start() -> Emulator {
        let port = free_port();
        Emulator::on(port, &format!("http://127.0.0.1:{port}"))
    }

    /// The same, with a recorder before it, for its functions.
    pub fn recorded() -> (Emulator, Recorder) {
        let port = free_port();
        let recorder = Recorder::before(&format!("http://127.0.0.1:{port}"));
        (Emulator::on(port, &recorder.url()), recorder)
    }

    /// On a port; functions reach it by that address.
    fn on(port: u16, for_functions: &str) -> Emulator {
        let folder = tempfile::Builder::new().prefix("rc-emulator-").tempdir().unwrap();
        std::fs::write(folder.path().join("sitecustomize.py"), CLOCK).unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let keep = |name: &str| std::env::var_os(name).unwrap_or_default();
        let port_text = port.to_string();
        let child = tied("ministack")
            .env_clear()
            // Functions inherit all of this.
            .envs([("PATH", keep("PATH")), ("HOME", keep("HOME"))])
            .env("TMPDIR", folder.path())
            .env("PYTHONPATH", folder.path())
            .env("EMULATOR_CLOCK", folder.path().join("clock"))
            .envs([
                ("BIND_HOST", "127.0.0.1"),
                ("GATEWAY_PORT", &port_text),
                ("EDGE_PORT", &port_text),
                ("IOT_MTLS_ENABLED", "0"),
                ("SFTP_ENABLED", "0"),
                ("LOG_LEVEL", "INFO"),
                ("AWS_ENDPOINT_URL", for_functions),
                ("NO_COLOR", "1"),
            ])
            .current_dir(folder.path())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("a shell can be started");
        let emulator = Emulator { folder, child: Mutex::new(child), port, passed: Mutex::default() };
        healthy(&format!("{url}/_ministack/health"), &emulator.log_file());
        emulator
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a queue's URL begins with, up to its name.
    pub fn queue_url_prefix(&self) -> String {
        format!("{}/000000000000/", self.url())
    }

    /// Lets time pass for it.
    pub fn pass(&self, time: Duration) {
        let mut passed = self.passed.lock().unwrap();
        *passed += time;
        let (file, part) = (self.folder.path().join("clock"), self.folder.path().join("clock.part"));
        std::fs::write(&part, passed.as_secs_f64().to_string()).unwrap();
        std::fs::rename(part, file).unwrap();
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// What it said, its functions included.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Ends it.
    pub fn stop(&self) {
        let mut child = self.child.lock().unwrap();
        drop(child.stdin.take());
        drop(child.wait());
    }

    /// A folder that ends with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop();
    }
}
