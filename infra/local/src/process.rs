//! Processes: what /proc knows of them, and how a service's own are started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde::{Deserialize, Serialize};

/// Stands in the environment of each process that the provider starts: `<root>.<name>/<replica>/<revision>`.
pub(crate) const MARKER: &str = "RUNTIME_CLOUD_SERVICE";
/// Marks the processes of one run of the platform; a service never carries it.
pub(crate) const RUN: &str = "RUNTIME_CLOUD_RUN";
/// Tells a process which replica it is, from 0.
pub(crate) const REPLICA: &str = "RUNTIME_CLOUD_REPLICA";

/// A process, told apart from a later one that got the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// The kernel's number.
    pub pid: u32,
    /// When it began, in clock ticks since this machine started.
    pub start_time: u64,
}

impl ProcessId {
    /// True while this very process runs; one that only waits to be reaped is dead.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.living && stat.id == *self)
    }
}

/// What we read of /proc/PID/stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) id: ProcessId,
    pub(crate) living: bool,
    pub(crate) group: u32,
    pub(crate) session: u32,
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    // The kernel cuts names after 15 bytes, in the middle of a letter too.
    parse(pid, &String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

fn parse(pid: u32, line: &str) -> Option<Stat> {
    // The name may hold anything, `)` included: the fields begin after the last one.
    let (_, fields) = line.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Some(Stat {
        id: ProcessId { pid, start_time: fields.get(19)?.parse().ok()? },
        living: !matches!(*fields.first()?, "Z" | "X" | "x"),
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
    })
}

/// What the marker in a process's environment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) service: String,
    pub(crate) replica: u32,
    pub(crate) revision: String,
}

impl Mark {
    fn parse(value: &str) -> Option<Self> {
        let mut parts = value.splitn(3, '/');
        Some(Self {
            service: parts.next()?.to_owned(),
            replica: parts.next()?.parse().ok()?,
            revision: parts.next()?.to_owned(),
        })
    }

    pub(crate) fn value(&self) -> String {
        format!("{}/{}/{}", self.service, self.replica, self.revision)
    }
}

/// The environment that a process was started with, as far as we may read it.
pub(crate) fn environment(pid: u32) -> BTreeMap<String, String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|entry| {
            let (key, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        })
        .collect()
}

fn mark(pid: u32) -> Option<Mark> {
    Mark::parse(environment(pid).get(MARKER)?)
}

/// A living process; its mark is none for processes that are not ours, or that overwrote it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) stat: Stat,
    pub(crate) mark: Option<Mark>,
}

/// All living processes of this machine.
pub(crate) fn living() -> Vec<Seen> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = stat(pid).filter(|stat| stat.living)?;
            Some(Seen { stat, mark: mark(pid) })
        })
        .collect()
}

/// Changes with each start of the machine, after which pids and start times begin anew.
pub(crate) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// One process to start.
pub(crate) struct Launch<'a> {
    pub(crate) command: &'a [String],
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) directory: &'a Path,
    pub(crate) log: &'a Path,
}

/// Starts a process that depends on nothing of ours: own session, own output, no descriptor.
pub(crate) fn spawn(launch: Launch<'_>) -> io::Result<ProcessId> {
    let (program, arguments) =
        launch.command.split_first().ok_or_else(|| io::Error::other("the command is empty"))?;
    let log = open_log(launch.log)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(launch.environment)
        .current_dir(launch.directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    // Out of the run: a service outlives it.
    process::detach(&mut command)?;
    let mut child = command.spawn()?;
    let id = stat(child.id()).map(|stat| stat.id);
    // Reaps it, so that a dead service doesn't stay as a zombie while this provider lives.
    thread::Builder::new().name("reaper".to_owned()).stack_size(64 * 1024).spawn(move || child.wait())?;
    id.ok_or_else(|| io::Error::other("the process is not in /proc"))
}

fn open_log(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    const LIMIT: u64 = 16 * 1024 * 1024;
    if fs::metadata(path).is_ok_and(|data| data.len() > LIMIT) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_doesnt_confuse_the_reader() {
        let line = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        let stat = parse(7, line).unwrap();
        assert_eq!(stat.id.start_time, 4242);
        assert!(stat.living);
        assert_eq!((stat.group, stat.session), (7, 7));
    }

    #[test]
    fn a_zombie_is_dead() {
        let line = "7 (x) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert!(!parse(7, line).unwrap().living);
    }

    #[test]
    fn this_process_is_alive_and_a_later_one_with_its_pid_is_not_it() {
        let me = stat(std::process::id()).unwrap().id;
        assert!(me.is_alive());
        assert!(!ProcessId { start_time: me.start_time + 1, ..me }.is_alive());
    }
}
