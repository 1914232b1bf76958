//! Starting a session, once.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use thiserror::Error;

use crate::identity::boot_id;
use crate::session_dir::{
    JOB, JobRecord, LOG, SUPERVISOR, SupervisorRecord, create_private, read_record, sync_dir, take_lock,
    unix_ms,
};
use crate::supervisor::{READY, SUPERVISE_ARGUMENT};
use crate::{Job, MARKER_VARIABLE, ProcessId, Secrets};

/// A session whose supervisor is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// The supervisor, which outlives the caller.
    pub supervisor: ProcessId,
}

/// Why a session was not started.
#[derive(Debug, Error)]
pub enum StartError {
    /// Somebody has started a session there before: look at it instead.
    #[error("a session exists in {dir} already; look at that one instead of starting another")]
    AlreadyThere {
        /// The session's directory.
        dir: PathBuf,
    },
    /// Nothing was written or started.
    #[error("the job can't run: {why}")]
    InvalidJob {
        /// What is wrong with it.
        why: String,
    },
    /// The directory could not be made; nothing was started.
    #[error("the session's directory {dir} can't be prepared; check that its disk is writable and not full")]
    Prepare {
        /// The session's directory.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The directory exists, the supervisor did not come up: looking at it says whether it is dead.
    #[error("the supervisor of {dir} did not come up: {why}")]
    NotUp {
        /// The session's directory.
        dir: PathBuf,
        /// What is known about it.
        why: String,
    },
}

/// How long a supervisor may take to report.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts the supervisor `exe __supervise dir` for a job. The parent of `dir` must exist, `dir` must not.
///
/// Of several callers at most one ever gets `Started`. The directory appears under its name only with the
/// job in it and the lock held, so that whoever sees it without a lock holder knows that nobody is coming.
pub fn start(exe: &Path, dir: &Path, job: &Job, secrets: &Secrets) -> Result<Started, StartError> {
    job.check(secrets)?;
    let prepare = |source| StartError::Prepare { dir: dir.to_owned(), source };
    let already = || StartError::AlreadyThere { dir: dir.to_owned() };
    if dir.try_exists().map_err(prepare)? {
        return Err(already());
    }
    let payload = serde_json::to_vec(secrets).map_err(|error| prepare(error.into()))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().map_err(prepare)?;
    let name = dir.file_name().ok_or_else(|| prepare(io::ErrorKind::InvalidFilename.into()))?;
    let placed = parent.join(name);
    let hidden = hidden_name(&parent, name);
    let lock = match prepare_hidden(&hidden, job) {
        Ok(lock) => lock,
        Err(error) => {
            let _ = fs::remove_dir_all(&hidden);
            return Err(prepare(error));
        }
    };
    if let Err(error) = renameat_with(CWD, &hidden, CWD, &placed, RenameFlags::NOREPLACE) {
        let _ = fs::remove_dir_all(&hidden);
        return Err(if error == rustix::io::Errno::EXIST { already() } else { prepare(error.into()) });
    }
    let not_up = |why: String| StartError::NotUp { dir: dir.to_owned(), why };
    sync_dir(&parent).map_err(|error| not_up(error.to_string()))?;
    spawn(exe, &placed, job, &payload, lock.into()).map_err(not_up)
}

// Unique among the threads of this process and the processes of this boot.
fn hidden_name(parent: &Path, name: &std::ffi::OsStr) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut hidden = std::ffi::OsString::from(".starting-");
    hidden.push(format!("{}-{number}-{}-", std::process::id(), unix_ms()));
    hidden.push(name);
    parent.join(hidden)
}

fn prepare_hidden(hidden: &Path, job: &Job) -> io::Result<fs::File> {
    fs::DirBuilder::new().mode(0o700).create(hidden)?;
    let lock = take_lock(hidden)?;
    let record = JobRecord { boot_id: boot_id()?, created_unix_ms: unix_ms(), job: job.clone() };
    let mut file = create_private(&hidden.join(JOB))?;
    file.write_all(&serde_json::to_vec_pretty(&record)?)?;
    file.sync_all()?;
    sync_dir(hidden)?;
    Ok(lock)
}

fn spawn(exe: &Path, dir: &Path, job: &Job, payload: &[u8], lock: OwnedFd) -> Result<Started, String> {
    let text = |error: io::Error| error.to_string();
    let (mut ours, theirs) = UnixStream::pair().map_err(text)?;
    let log = create_private(&dir.join(LOG)).map_err(text)?;
    // The lock travels as standard output: that needs no code between fork and exec in a big process.
    let mut child = Command::new(exe)
        .arg(SUPERVISE_ARGUMENT)
        .arg(dir)
        .env_clear()
        .env(MARKER_VARIABLE, &job.marker)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(lock))
        .stderr(Stdio::from(log))
        .spawn()
        .map_err(|error| format!("{} can't be started: {error}", exe.display()))?;
    let mut answer = String::new();
    let told = ours
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| ours.set_write_timeout(Some(PATIENCE)))
        .and_then(|()| ours.write_all(payload))
        .and_then(|()| ours.shutdown(Shutdown::Write))
        .and_then(|()| ours.read_to_string(&mut answer));
    if told.is_ok() && answer == READY {
        return match read_record::<SupervisorRecord>(dir, SUPERVISOR) {
            Ok(Some(record)) => Ok(Started { supervisor: record.process }),
            Ok(None) => Err("it left no record of itself".into()),
            Err(error) => Err(error.to_string()),
        };
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(match told {
        Err(error) => error.to_string(),
        Ok(_) if answer.is_empty() => "it ended at once; its log is in that directory".into(),
        Ok(_) => answer,
    })
}
