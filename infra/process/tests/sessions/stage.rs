//! A folder for sessions, jobs of shell steps, and looking at processes.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use process::{Exit, Job, Life, ProcessId, Secrets, Started, Step};
use tempfile::TempDir;

pub const START_AND_HANG: &str = "__start_and_hang";
pub const LEAVE_A_SERVICE: &str = "__leave_a_service";

/// Long enough for a loaded machine; no test passes by waiting for it.
pub const LIMIT: Duration = Duration::from_secs(60);

pub struct Stage {
    folder: TempDir,
    own_cgroup: bool,
}

impl Stage {
    pub fn new(own_cgroup: bool) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), own_cgroup }
    }

    pub fn dir(&self) -> PathBuf {
        self.file("session")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A step that runs a shell script in the stage's folder.
    pub fn shell(&self, name: &str, script: &str) -> Step {
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        let mut step = Step::new(name, argv, self.folder.path(), 120_000);
        step.env.insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        step
    }

    pub fn job(&self, steps: Vec<Step>) -> Job {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Job {
            marker: format!("test-{}-{number}", std::process::id()),
            steps,
            deadline_unix_ms: unix_ms() + 300_000,
            grace_ms: 60_000,
            output_limit: 1 << 20,
            own_cgroup: self.own_cgroup,
        }
    }

    pub fn start(&self, job: &Job) -> Started {
        self.start_with(job, &Secrets::new())
    }

    pub fn start_with(&self, job: &Job, secrets: &Secrets) -> Started {
        process::start(&exe(), &self.dir(), job, secrets).unwrap()
    }

    /// Runs a job to its end.
    pub fn run(&self, job: &Job) -> Exit {
        self.start(job);
        self.finished()
    }

    pub fn finished(&self) -> Exit {
        match process::wait(&self.dir(), LIMIT) {
            Life::Finished { exit, survivors } if survivors.is_empty() => exit,
            other => panic!("not finished: {other:?}"),
        }
    }

    pub fn output(&self, name: &str) -> String {
        fs::read_to_string(self.dir().join(name)).unwrap()
    }

    /// Waits until a file of the stage holds at least a line, and returns what it holds.
    pub fn await_file(&self, name: &str) -> String {
        let mut text = String::new();
        until(|| {
            text = fs::read_to_string(self.file(name)).unwrap_or_default();
            text.ends_with('\n')
        });
        text.trim().to_owned()
    }

    /// The process whose pid a step has written to a file.
    pub fn await_process(&self, name: &str) -> ProcessId {
        ProcessId::of(self.await_file(name).parse().unwrap()).unwrap()
    }

    /// Starts the session from another process, which then does nothing but live.
    pub fn start_elsewhere(&self, job: &Job) -> Child {
        fs::write(self.file("job"), serde_json::to_vec(job).unwrap()).unwrap();
        let mut host = Command::new(exe())
            .arg(START_AND_HANG)
            .arg(self.dir())
            .stdin(Stdio::from(fs::File::open(self.file("job")).unwrap()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = [0_u8; 1];
        host.stdout.as_mut().unwrap().read_exact(&mut told).unwrap();
        host
    }
}

pub fn exe() -> PathBuf {
    std::env::current_exe().unwrap()
}

pub fn unix_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

pub fn until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn signal(process: ProcessId, name: &str) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", process.pid)).status().unwrap();
    assert!(sent.success());
}

/// A host that has started a session and lives until it is killed.
pub fn start_and_hang(dir: &Path) -> ! {
    let job: Job = serde_json::from_reader(std::io::stdin()).unwrap();
    process::start(&exe(), dir, &job, &Secrets::new()).unwrap();
    println!("started");
    loop {
        std::thread::park();
    }
}

/// What the local provider does: a program that is to live on after the run.
pub fn leave_a_service(file: &Path) -> ! {
    let mut service = Command::new("sleep");
    service.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process::detach(&mut service).unwrap();
    let service = service.spawn().unwrap();
    fs::write(file, format!("{}\n", service.id())).unwrap();
    std::process::exit(0)
}
