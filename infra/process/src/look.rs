//! Looking at a session from outside, and waiting for its end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::identity::boot_id;
use crate::members::Signs;
use crate::session_dir::{
    EXIT, JOB, JobRecord, LOCK, SUPERVISOR, SupervisorRecord, lock_is_free, read_record,
};
use crate::{Evidence, Exit, Life, ProcessId, Proof, cgroup};

/// Says whether the session in that directory lives. Never guesses: what can't be proved is `Unknown`.
pub fn look(dir: &Path) -> Life {
    let end = Instant::now() + HELD_BY_NOBODY;
    loop {
        let life = try_look(dir).unwrap_or_else(|error| Life::Unknown {
            why: format!("the session's files can't be read: {error}"),
            survivors: Vec::new(),
        });
        // A program that its starter starts just then holds a copy of the lock until its exec.
        let passing = matches!(&life, Life::Unknown { survivors, .. } if survivors.is_empty());
        if !passing || Instant::now() >= end {
            return life;
        }
        wait_for_any(&[], COMING_UP);
    }
}

/// How long a lock may be held by no process that can be found before that is believed.
const HELD_BY_NOBODY: Duration = Duration::from_millis(200);

fn try_look(dir: &Path) -> io::Result<Life> {
    if !dir.try_exists()? {
        return Ok(Life::NeverStarted);
    }
    // The lock's name in /proc is the resolved one.
    let dir = dir.canonicalize()?;
    if let Some(life) = finished(&dir)? {
        return Ok(life);
    }
    let Some(record) = read_record::<JobRecord>(&dir, JOB)? else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "job.json is missing"));
    };
    let supervisor = read_record::<SupervisorRecord>(&dir, SUPERVISOR)?;
    let same_boot = record.boot_id == boot_id()?;
    if !lock_is_free(&dir)? {
        return Ok(held(&dir, &record, supervisor, same_boot));
    }
    // It may have ended between the first look and the test of the lock.
    if let Some(life) = finished(&dir)? {
        return Ok(life);
    }
    let may_have_run = supervisor.is_some();
    if !same_boot {
        return Ok(Life::Dead(Proof { may_have_run, evidence: Evidence::Rebooted }));
    }
    if let Some(supervisor) = &supervisor {
        supervisor.process.reap();
    }
    let group = supervisor.as_ref().and_then(|supervisor| supervisor.cgroup.clone());
    let group_empty = group.as_deref().map_or(Ok(true), cgroup::is_empty)?;
    let survivors = signs(&dir, &record, supervisor.as_ref()).members();
    if !survivors.is_empty() || !group_empty {
        let why = "its supervisor is gone without a record, but processes of the session still live".into();
        return Ok(Life::Unknown { why, survivors });
    }
    if let Some(group) = &group {
        cgroup::remove(group);
    }
    let evidence = if group.is_some() { Evidence::CgroupEmpty } else { Evidence::NobodyLeft };
    Ok(Life::Dead(Proof { may_have_run, evidence }))
}

fn finished(dir: &Path) -> io::Result<Option<Life>> {
    let Some(exit) = read_record::<Exit>(dir, EXIT)? else { return Ok(None) };
    if let Some(supervisor) = read_record::<SupervisorRecord>(dir, SUPERVISOR)? {
        supervisor.process.reap();
    }
    let survivors = exit.survivors.iter().copied().filter(|process| process.alive()).collect();
    Ok(Some(Life::Finished { exit, survivors }))
}

fn held(dir: &Path, record: &JobRecord, supervisor: Option<SupervisorRecord>, same_boot: bool) -> Life {
    let Some(supervisor) = supervisor else {
        // Whoever starts it holds the lock from before the directory has its name.
        return Life::Running { supervisor: None, since_unix_ms: record.created_unix_ms };
    };
    if same_boot && supervisor.process.alive() {
        let since_unix_ms = supervisor.started_unix_ms;
        return Life::Running { supervisor: Some(supervisor.process), since_unix_ms };
    }
    let mut survivors = signs(dir, record, Some(&supervisor)).members();
    survivors.extend(Some(supervisor.process).filter(|process| process.alive()));
    let why = "its supervisor is gone without a record, but its lock is still held".into();
    Life::Unknown { why, survivors }
}

pub(crate) fn signs(dir: &Path, record: &JobRecord, supervisor: Option<&SupervisorRecord>) -> Signs {
    Signs::new(
        &record.job.marker,
        &dir.join(LOCK),
        supervisor.and_then(|supervisor| supervisor.cgroup.clone()),
        supervisor.map(|supervisor| supervisor.process),
    )
}

/// Processes that carry a session's marker or hold its lock, though its directory may be gone: without it nothing
/// else tells whether the session was ever started.
pub fn left_behind(dir: &Path, marker: &str) -> Vec<ProcessId> {
    // The lock's name in /proc is the resolved one; of a directory that is gone only the parent can be resolved.
    let parent = dir.parent().and_then(|parent| parent.canonicalize().ok());
    let dir = match (parent, dir.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        (_, _) => dir.to_owned(),
    };
    Signs::new(marker, &dir.join(LOCK), None, None).members()
}

/// How often a session without a named process is looked at: it is just coming up.
const COMING_UP: Duration = Duration::from_millis(5);

/// Waits until the session has ended or provably died, at most for `limit`, and says what it is then.
///
/// Works for any session of this machine, also for one that an earlier host has started.
pub fn wait(dir: &Path, limit: Duration) -> Life {
    let end = Instant::now() + limit;
    loop {
        let life = look(dir);
        let watched: Vec<ProcessId> = match &life {
            Life::Running { supervisor, .. } => supervisor.iter().copied().collect(),
            Life::Unknown { survivors, .. } if !survivors.is_empty() => survivors.clone(),
            Life::NeverStarted | Life::Finished { .. } | Life::Dead(_) | Life::Unknown { .. } => return life,
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return life;
        }
        let handles: Vec<OwnedFd> = watched.iter().filter_map(|process| process.open()).collect();
        // One that could not be opened has ended just now, so it is worth another look soon.
        let patience = if handles.len() == watched.len() && !handles.is_empty() { left } else { COMING_UP };
        wait_for_any(&handles, patience.min(left));
    }
}

/// Sleeps until one of the processes ends, or the time is over.
pub(crate) fn wait_for_any(handles: &[OwnedFd], limit: Duration) {
    let mut polled: Vec<PollFd<'_>> =
        handles.iter().map(|handle| PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)).collect();
    // An interrupted wait only means one more look.
    let _ = poll(&mut polled, timespec(limit).as_ref());
}

pub(crate) fn timespec(limit: Duration) -> Option<Timespec> {
    Timespec::try_from(limit).ok()
}
