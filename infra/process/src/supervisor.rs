//! The supervisor: runs a session's steps, watches their limits, clears up, leaves the record.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, Pid, WaitOptions, pidfd_send_signal, wait};

use crate::look::{timespec, wait_for_any};
use crate::members::Signs;
use crate::session_dir::{
    JOB, JobRecord, LOCK, SUPERVISOR, SupervisorRecord, read_record, reserve_exit, unix_ms, write_exit,
    write_record,
};
use crate::signals::{Asked, Signals};
use crate::step::{Place, Running, spawn};
use crate::stop::kill_members;
use crate::{EndedBy, Exit, Job, ProcessId, Secrets, Status, Step, StepExit, cgroup};

/// The first argument that makes the host's executable a supervisor.
pub const SUPERVISE_ARGUMENT: &str = "__supervise";

/// What a supervisor says when its session is recorded and the first step is about to start.
pub(crate) const READY: &str = "ready";

/// How often output sizes and the wall clock are checked.
const TICK: Duration = Duration::from_millis(100);
/// How long what is left after the last step may take to end by itself.
const LINGER: Duration = Duration::from_millis(500);
/// How long a full disk is retried for the record.
const RECORD_PATIENCE: Duration = Duration::from_secs(60);

/// Runs the session in that directory. The host calls it before anything else when its first argument is
/// [`SUPERVISE_ARGUMENT`]; the process must not have started a thread yet. Returns the exit code.
pub fn supervisor_main(dir: &Path) -> i32 {
    let mut supervisor = match Supervisor::come_up(dir) {
        Ok(supervisor) => supervisor,
        Err(error) => {
            // The starter reads it from the socket; if it is gone, so is the reason to tell.
            if let Ok(starter) = io::stdin().as_fd().try_clone_to_owned() {
                let _ = UnixStream::from(starter).write_all(error.to_string().as_bytes());
            }
            return 2;
        }
    };
    let exit = supervisor.run();
    match write_exit(dir, &exit, RECORD_PATIENCE) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "the record can't be written: {error}");
            1
        }
    }
}

struct Supervisor {
    dir: PathBuf,
    job: Job,
    secrets: Secrets,
    signals: Signals,
    signs: Signs,
    cgroup: Option<PathBuf>,
    started_unix_ms: u64,
    deadline: Instant,
    // Held for its descriptor: every child inherits it.
    _lock: OwnedFd,
    outputs: Vec<File>,
    ending: Ending,
}

/// What has been decided about an early end.
#[derive(Default)]
struct Ending {
    why: Option<Why>,
    kill_at: Option<Instant>,
    killed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Stopped,
    Deadline,
    OutputLimit,
    TimedOut,
}

impl Supervisor {
    fn come_up(dir: &Path) -> io::Result<Self> {
        let signals = Signals::watch()?;
        rustix::process::setsid()?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // Programs run as the same user: they must not read the secrets out of this memory.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let lock = take_over_lock(dir)?;
        let mut starter = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut payload = Vec::new();
        starter.read_to_end(&mut payload)?;
        // Half a payload does not parse: a starter that died starts nothing.
        let secrets: Secrets = serde_json::from_slice(&payload)?;
        drop(payload);
        let record: JobRecord =
            read_record(dir, JOB)?.ok_or_else(|| io::Error::other("job.json is missing"))?;
        let job = record.job;
        reserve_exit(dir, job.steps.len())?;
        let cgroup = if job.own_cgroup { cgroup::create(&job.marker) } else { None };
        let process = ProcessId::current()?;
        let started_unix_ms = unix_ms();
        let left = Duration::from_millis(job.deadline_unix_ms.saturating_sub(started_unix_ms));
        let own = SupervisorRecord { process, started_unix_ms, cgroup: cgroup.clone() };
        write_record(dir, SUPERVISOR, &own)?;
        let supervisor = Self {
            signs: Signs::new(&job.marker, &dir.join(LOCK), cgroup.clone(), Some(process)),
            dir: dir.to_owned(),
            deadline: later(left),
            job,
            secrets,
            signals,
            cgroup,
            started_unix_ms,
            _lock: lock,
            outputs: Vec::new(),
            ending: Ending::default(),
        };
        // Whether the starter still listens changes nothing: the session is recorded.
        let _ = starter.write_all(READY.as_bytes());
        drop(starter);
        rustix::stdio::dup2_stdin(OpenOptions::new().read(true).open("/dev/null")?)?;
        Ok(supervisor)
    }

    fn run(&mut self) -> Exit {
        let steps = self.job.steps.clone();
        let mut ends: Vec<StepExit> = Vec::new();
        let mut failed = None;
        for (number, step) in steps.iter().enumerate() {
            self.notice_requests(None);
            if self.ending.why.is_some() {
                break;
            }
            match self.run_step(number, step) {
                Ok(end) => {
                    let accepted =
                        matches!(end.status, Status::Code(code) if step.accepted_codes.contains(&code));
                    ends.push(end);
                    if !accepted {
                        failed = Some(EndedBy::StepFailed { name: step.name.clone() });
                        break;
                    }
                }
                Err(error) => {
                    failed = Some(EndedBy::SpawnFailed { name: step.name.clone(), why: error.to_string() });
                    break;
                }
            }
        }
        self.secrets = Secrets::new();
        let complete = failed.is_none() && ends.len() == steps.len();
        let ended_by = match (self.ending.why, failed) {
            _ if complete => EndedBy::Completed,
            (Some(Why::Stopped), _) => EndedBy::Stopped,
            (Some(Why::Deadline), _) => EndedBy::Deadline,
            (Some(Why::OutputLimit), _) => EndedBy::OutputLimit,
            (Some(Why::TimedOut) | None, Some(failed)) => failed,
            (Some(Why::TimedOut) | None, None) => EndedBy::Stopped,
        };
        let survivors = self.clear_up();
        Exit {
            steps: ends,
            ended_by,
            started_unix_ms: self.started_unix_ms,
            ended_unix_ms: unix_ms(),
            killed: self.ending.killed,
            survivors,
        }
    }

    fn run_step(&mut self, number: usize, step: &Step) -> io::Result<StepExit> {
        let started_unix_ms = unix_ms();
        let limit = later(Duration::from_millis(step.timeout_ms));
        let cgroup = self.cgroup.clone();
        let place = Place { dir: &self.dir, number, marker: &self.job.marker, cgroup: cgroup.as_deref() };
        let running = spawn(step, &place, &self.secrets)?;
        for output in &running.outputs {
            self.outputs.push(output.try_clone()?);
        }
        let status = loop {
            if let Some(status) = reap(Some(running.pid)) {
                break status;
            }
            self.notice_requests(Some((&running, step)));
            if Instant::now() >= limit {
                self.ask(Why::TimedOut, Some((&running, step)));
            }
            if self.ending.kill_at.is_some_and(|at| Instant::now() >= at) {
                self.kill_all(&running);
            }
            self.sleep(&running, limit);
        };
        let timed_out = self.ending.why == Some(Why::TimedOut);
        if timed_out && matches!(status, Status::Code(code) if step.accepted_codes.contains(&code)) {
            // It was done in time to be asked, and well: the next step may run.
            self.ending = Ending { killed: self.ending.killed, ..Ending::default() };
        }
        Ok(StepExit { name: step.name.clone(), status, started_unix_ms, ended_unix_ms: unix_ms(), timed_out })
    }

    /// Looks at the signals, the deadline and the outputs.
    fn notice_requests(&mut self, current: Option<(&Running, &Step)>) {
        while let Some(asked) = self.signals.next() {
            self.ask(Why::Stopped, current);
            if asked == Asked::Kill {
                self.ending.kill_at = Some(Instant::now());
            }
        }
        // Both clocks: the one stands still while a laptop sleeps, the other may be set back.
        if Instant::now() >= self.deadline || unix_ms() >= self.job.deadline_unix_ms {
            self.ask(Why::Deadline, current);
        }
        let written: u64 = self.outputs.iter().filter_map(|file| file.metadata().ok()).map(|m| m.len()).sum();
        if written > self.job.output_limit {
            self.ask(Why::OutputLimit, current);
        }
    }

    /// The first reason counts, and its graceful signal is the only one.
    fn ask(&mut self, why: Why, current: Option<(&Running, &Step)>) {
        if self.ending.why.is_some() {
            return;
        }
        self.ending.why = Some(why);
        self.ending.kill_at = Some(later(Duration::from_millis(self.job.grace_ms)));
        if let Some((running, step)) = current {
            let _ = pidfd_send_signal(&running.handle, step.graceful.signal());
        }
    }

    fn kill_all(&mut self, running: &Running) {
        self.ending.killed = true;
        // The step itself by its handle, in case it has shed every sign.
        let _ = pidfd_send_signal(&running.handle, rustix::process::Signal::KILL);
        kill_members(&self.signs, self.cgroup.as_deref());
    }

    fn sleep(&self, running: &Running, limit: Instant) {
        let now = Instant::now();
        let until = [Some(limit), Some(self.deadline), self.ending.kill_at];
        let nearest = until.into_iter().flatten().map(|at| at.saturating_duration_since(now));
        // What is already past has been acted upon; it must not turn the wait into a spin.
        let nap = nearest.filter(|left| !left.is_zero()).min().unwrap_or(TICK).min(TICK);
        let mut polled = [
            PollFd::from_borrowed_fd(running.handle.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        let _ = poll(&mut polled, timespec(nap).as_ref());
    }

    /// Ends what is left of the session; what was let out on purpose carries no sign and stays.
    fn clear_up(&mut self) -> Vec<ProcessId> {
        let end = later(if self.ending.killed { Duration::ZERO } else { LINGER });
        let survivors = loop {
            reap(None);
            // As their reaper this process has every descendant below it: no child, no member.
            if !has_children() {
                break Vec::new();
            }
            let members = self.signs.members();
            if members.is_empty() {
                break Vec::new();
            }
            if Instant::now() >= end {
                let survivors = kill_members(&self.signs, self.cgroup.as_deref());
                reap(None);
                break survivors;
            }
            let handles: Vec<OwnedFd> = members.iter().filter_map(|member| member.open()).collect();
            let left = end.saturating_duration_since(Instant::now());
            wait_for_any(&handles, left.min(TICK));
        };
        if let Some(cgroup) = &self.cgroup {
            cgroup::remove(cgroup);
        }
        survivors
    }
}

fn later(wait: Duration) -> Instant {
    let now = Instant::now();
    // A limit beyond what the clock can say is as good as a year.
    now.checked_add(wait).unwrap_or(now + Duration::from_secs(365 * 24 * 3600))
}

/// Moves the lock from standard output to a descriptor that children inherit.
fn take_over_lock(dir: &Path) -> io::Result<OwnedFd> {
    // Plain `dup`: the copy must stay open in every program that is started.
    let lock = rustix::io::dup(io::stdout().as_fd())?;
    let held = File::from(lock.try_clone()?).metadata()?;
    let expected = std::fs::metadata(dir.join(LOCK))?;
    if (held.dev(), held.ino()) != (expected.dev(), expected.ino()) {
        return Err(io::Error::other("not started by a host: standard output is not the session's lock"));
    }
    rustix::stdio::dup2_stdout(OpenOptions::new().write(true).open("/dev/null")?)?;
    Ok(lock)
}

/// Takes every ended child away and says how the wanted one ended.
fn reap(wanted: Option<Pid>) -> Option<Status> {
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if Some(pid) == wanted {
            let code = status.exit_status().map(Status::Code);
            found = code.or_else(|| status.terminating_signal().map(Status::Signal));
        }
    }
    found
}

fn has_children() -> bool {
    !matches!(wait(WaitOptions::NOHANG), Err(rustix::io::Errno::CHILD))
}
