//! The files of a session's directory, and how they are written so that a crash leaves no half of one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use serde::{Deserialize, Serialize};

use crate::{Exit, Job, ProcessId};

pub(crate) const JOB: &str = "job.json";
pub(crate) const SUPERVISOR: &str = "supervisor.json";
pub(crate) const EXIT: &str = "exit.json";
pub(crate) const LOCK: &str = "lock";
pub(crate) const LOG: &str = "supervisor.log";
const EXIT_NEXT: &str = "exit.json.next";

/// `job.json`: written before the directory appears under its name.
#[derive(Serialize, Deserialize)]
pub(crate) struct JobRecord {
    pub(crate) boot_id: String,
    pub(crate) created_unix_ms: u64,
    pub(crate) job: Job,
}

/// `supervisor.json`: written by the supervisor before any step. Means nothing after a reboot.
#[derive(Serialize, Deserialize)]
pub(crate) struct SupervisorRecord {
    pub(crate) process: ProcessId,
    pub(crate) started_unix_ms: u64,
    pub(crate) cgroup: Option<PathBuf>,
}

pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Opens a new file that only its owner may read.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A record that may be absent; one that can't be read is an error, never an absence.
pub(crate) fn read_record<T: for<'a> Deserialize<'a>>(dir: &Path, name: &str) -> io::Result<Option<T>> {
    let mut bytes = Vec::new();
    match File::open(dir.join(name)) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Writes a record under another name first, so that a reader never sees half of it.
pub(crate) fn write_record<T: Serialize>(dir: &Path, name: &str, record: &T) -> io::Result<()> {
    let next = dir.join(format!("{name}.next"));
    let mut file = create_private(&next)?;
    file.write_all(&serde_json::to_vec_pretty(record)?)?;
    std::fs::rename(&next, dir.join(name))
}

/// Keeps room for the exit record, so that a program that fills the disk can't hide its own end.
pub(crate) fn reserve_exit(dir: &Path, steps: usize) -> io::Result<()> {
    let file = create_private(&dir.join(EXIT_NEXT))?;
    let room = 16 * 1024 + 1024 * u64::try_from(steps).unwrap_or(0);
    // Not every file system can promise room; then the retries below are all there is.
    if fallocate(&file, FallocateFlags::empty(), 0, room).is_err() {
        (&file).write_all(&vec![b' '; usize::try_from(room).unwrap_or(0)])?;
    }
    file.sync_all()
}

/// Puts the exit record in place for good, trying for `patience` when the disk is full.
pub(crate) fn write_exit(dir: &Path, exit: &Exit, patience: Duration) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(exit)?;
    let give_up = Instant::now() + patience;
    loop {
        match try_write_exit(dir, &bytes) {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= give_up => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

fn try_write_exit(dir: &Path, bytes: &[u8]) -> io::Result<()> {
    let next = dir.join(EXIT_NEXT);
    // Not truncated before writing: the reserved blocks are to be reused.
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&next)?;
    file.write_all(bytes)?;
    file.set_len(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
    file.sync_all()?;
    std::fs::rename(&next, dir.join(EXIT))?;
    sync_dir(dir)
}

/// Takes the lock of a directory that nobody else knows yet.
pub(crate) fn take_lock(dir: &Path) -> io::Result<File> {
    let file = create_private(&dir.join(LOCK))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// True when no process holds the session's lock.
pub(crate) fn lock_is_free(dir: &Path) -> io::Result<bool> {
    let file = File::open(dir.join(LOCK))?;
    // Shared, so that two who look at once don't take each other for the session.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
