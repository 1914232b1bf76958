//! Stopping processes: ask, wait, insist.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgrp, kill_process_group};

use crate::error::LocalError;
use crate::process::{self, Mark, ProcessId, Seen};

/// How long a process may take to vanish after SIGKILL.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Stops the leaders with their groups, and every process whose mark is among the wanted ones.
/// Returns the leaders and descendants that were there.
pub(crate) fn stop(
    name: &str,
    leaders: &[ProcessId],
    wanted: impl Fn(&Mark) -> bool,
    grace: Duration,
) -> Result<Vec<ProcessId>, LocalError> {
    let mut hunt = Hunt::new(leaders, wanted);
    let found = hunt.members();
    let stopped: Vec<ProcessId> = found.iter().map(|seen| seen.stat.id).collect();
    if found.is_empty() {
        return Ok(stopped);
    }
    signal(&found, Signal::TERM);
    // One that was halted hears nothing before it goes on.
    signal(&found, Signal::CONT);
    if hunt.wait(grace, None) {
        return Ok(stopped);
    }
    if hunt.wait(LAST_WAIT, Some(Signal::KILL)) {
        return Ok(stopped);
    }
    let pids = hunt.members().iter().map(|seen| seen.stat.id.pid).collect();
    Err(LocalError::Unkillable { name: name.to_owned(), pids })
}

struct Hunt<F> {
    groups: BTreeSet<u32>,
    wanted: F,
}

impl<F: Fn(&Mark) -> bool> Hunt<F> {
    fn new(leaders: &[ProcessId], wanted: F) -> Self {
        // A leader is the first of its own group, so its pid names the group; only a living one may.
        let groups = leaders.iter().filter(|leader| leader.is_alive()).map(|leader| leader.pid).collect();
        Self { groups, wanted }
    }

    fn members(&mut self) -> Vec<Seen> {
        let members: Vec<Seen> = process::living()
            .into_iter()
            .filter(|seen| {
                self.groups.contains(&seen.stat.group)
                    || seen.mark.as_ref().is_some_and(|mark| (self.wanted)(mark))
            })
            .collect();
        // An empty group's number can be given to a stranger: it is not ours any more.
        self.groups.retain(|group| members.iter().any(|seen| seen.stat.group == *group));
        members
    }

    /// True as soon as nobody is left; signals again in each round, to catch what was just forked.
    fn wait(&mut self, limit: Duration, insist: Option<Signal>) -> bool {
        let started = Instant::now();
        let mut pause = Duration::from_millis(5);
        loop {
            let members = self.members();
            if members.is_empty() {
                return true;
            }
            if let Some(signal_number) = insist {
                signal(&members, signal_number);
            }
            if started.elapsed() >= limit {
                return false;
            }
            thread::sleep(pause.min(limit.saturating_sub(started.elapsed())));
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

fn signal(members: &[Seen], signal: Signal) {
    let own = getpgrp();
    let groups: BTreeSet<u32> =
        members.iter().filter(|seen| seen.stat.id.is_alive()).map(|seen| seen.stat.group).collect();
    for group in groups {
        let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) else { continue };
        if group == own || group == Pid::INIT {
            continue;
        }
        // It may have ended by itself in between; the next look tells.
        let _ = kill_process_group(group, signal);
    }
}
