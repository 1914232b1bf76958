//! Which process is meant: a pid alone may be reused, a pid with its start time is not.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use serde::{Deserialize, Serialize};

/// A process, safe against reuse of its pid within one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// The kernel's number for it.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// What `/proc/PID/stat` says, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) id: ProcessId,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    pub(crate) ended: bool,
}

impl Stat {
    pub(crate) fn read(pid: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&text))
    }

    // The command name stands in parentheses and may hold spaces and parentheses itself.
    fn parse(pid: i32, text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            id: ProcessId { pid, start_ticks: fields.get(19)?.parse().ok()? },
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
        })
    }
}

impl ProcessId {
    /// The process that asks.
    pub fn current() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self::of(pid).ok_or_else(|| io::Error::other("/proc is not readable"))
    }

    /// The living process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        Stat::read(pid).filter(|stat| !stat.ended).map(|stat| stat.id)
    }

    /// True while this very process lives; a zombie does not.
    pub fn alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// A handle that means this very process, or nothing if it has ended.
    pub(crate) fn open(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Checked after opening: from here on the handle can't come to mean another process.
        self.alive().then_some(handle)
    }

    /// Takes a zombie away if it is a child of ours; harmless otherwise.
    pub(crate) fn reap(self) {
        if let Some(pid) = Pid::from_raw(self.pid)
            && Stat::read(self.pid).is_some_and(|stat| stat.id == self && stat.ended)
        {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// The kernel's name for the time since the last start of the machine.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read_right() {
        let text = "42 (a) b (c)) S 1 42 40 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1";
        let stat = Stat::parse(42, text).unwrap();
        assert_eq!(stat.id, ProcessId { pid: 42, start_ticks: 777 });
        assert_eq!((stat.parent, stat.session), (1, 40));
        assert!(!stat.ended);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let me = ProcessId::current().unwrap();
        assert!(me.alive());
        assert!(!ProcessId { start_ticks: me.start_ticks + 1, ..me }.alive());
    }
}
