//! Stopping a session, gracefully or at once, and clearing its directory away.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Signal, pidfd_send_signal};
use thiserror::Error;

use crate::look::{look, signs, wait_for_any};
use crate::members::Signs;
use crate::session_dir::{JOB, JobRecord, SUPERVISOR, SupervisorRecord, read_record};
use crate::{Life, ProcessId, cgroup};

/// Why a session could not be stopped or removed.
#[derive(Debug, Error)]
pub enum StopError {
    /// The supervisor is not up yet, or just ended.
    #[error("the session has no supervisor to ask just now; look at it again")]
    NobodyToAsk,
    /// The session's files or processes are out of reach.
    #[error("the session can't be reached; check that it belongs to the same user")]
    Unreachable(#[from] io::Error),
    /// Only what is over can be removed.
    #[error("the session is not over yet, so its directory stays")]
    NotOver,
}

/// Asks a running session to stop: one graceful signal to its step, and after the job's grace the end of
/// everything. Returns at once; a session that is over already is no error.
pub fn stop(dir: &Path) -> Result<(), StopError> {
    signal_supervisor(dir, Signal::TERM).map(|_| ())
}

/// Ends a session at once: through its supervisor where there is one, which then writes the record;
/// otherwise by killing every process that is known to belong to it.
pub fn kill(dir: &Path) -> Result<(), StopError> {
    if signal_supervisor(dir, Signal::USR1)? {
        return Ok(());
    }
    let dir = dir.canonicalize()?;
    if let Some(record) = read_record::<JobRecord>(&dir, JOB)? {
        let supervisor = read_record::<SupervisorRecord>(&dir, SUPERVISOR)?;
        let group = supervisor.as_ref().and_then(|supervisor| supervisor.cgroup.clone());
        kill_members(&signs(&dir, &record, supervisor.as_ref()), group.as_deref());
    }
    Ok(())
}

/// Removes the directory of a session that is over, and its empty cgroup.
pub fn remove(dir: &Path) -> Result<(), StopError> {
    match look(dir) {
        Life::NeverStarted => return Ok(()),
        Life::Finished { survivors, .. } if survivors.is_empty() => {}
        Life::Dead(_) => {}
        Life::Finished { .. } | Life::Running { .. } | Life::Unknown { .. } => {
            return Err(StopError::NotOver);
        }
    }
    if let Some(group) = read_record::<SupervisorRecord>(dir, SUPERVISOR)?.and_then(|record| record.cgroup) {
        cgroup::remove(&group);
    }
    Ok(fs::remove_dir_all(dir)?)
}

// True when there was a supervisor, or nothing is left to stop.
fn signal_supervisor(dir: &Path, signal: Signal) -> Result<bool, StopError> {
    let supervisor = match look(dir) {
        Life::Running { supervisor, .. } => supervisor.ok_or(StopError::NobodyToAsk)?,
        Life::NeverStarted | Life::Dead(_) => return Ok(true),
        Life::Finished { survivors, .. } => return Ok(survivors.is_empty()),
        Life::Unknown { .. } => return Ok(false),
    };
    let handle = supervisor.open().ok_or(StopError::NobodyToAsk)?;
    pidfd_send_signal(&handle, signal).map_err(io::Error::from)?;
    Ok(true)
}

/// How long killed processes are waited for: one in the middle of a disk access may take a while.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Kills every member until none is left, and returns those that would not die.
pub(crate) fn kill_members(signs: &Signs, group: Option<&Path>) -> Vec<ProcessId> {
    let end = Instant::now() + KILL_PATIENCE;
    loop {
        if let Some(group) = group {
            cgroup::kill(group);
        }
        // Looked up anew each time: a member may have started another before it died.
        let members = signs.members();
        if members.is_empty() || Instant::now() >= end {
            return members;
        }
        let mut handles = Vec::new();
        for member in &members {
            if let Some(handle) = member.open() {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
                handles.push(handle);
            }
        }
        wait_for_any(&handles, Duration::from_millis(20));
    }
}
