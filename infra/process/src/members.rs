//! Which living processes belong to a session.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::identity::Stat;
use crate::{MARKER_VARIABLE, ProcessId, cgroup};

/// What gives a member away. Each is enough by itself.
pub(crate) struct Signs {
    /// An entry of its environment.
    marker: Vec<u8>,
    /// An open descriptor of the session's lock.
    lock: PathBuf,
    /// It is in the session's cgroup.
    cgroup: Option<PathBuf>,
    /// It has the supervisor's session number and started after it.
    supervisor: Option<ProcessId>,
}

impl Signs {
    pub(crate) fn new(
        marker: &str,
        lock: &Path,
        cgroup: Option<PathBuf>,
        supervisor: Option<ProcessId>,
    ) -> Self {
        let marker = format!("{MARKER_VARIABLE}={marker}").into_bytes();
        Self { marker, lock: lock.to_owned(), cgroup, supervisor }
    }

    /// Every living member except the supervisor itself.
    pub(crate) fn members(&self) -> Vec<ProcessId> {
        let in_cgroup = self.cgroup.as_deref().map(cgroup::pids).unwrap_or_default();
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let sessions_reused = self.session_number_reused();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let Some(stat) = Stat::read(pid) else { continue };
            if stat.ended || pid == own || Some(stat.id) == self.supervisor {
                continue;
            }
            // A member is a descendant, so whatever is older than the supervisor is none.
            if self.supervisor.is_some_and(|supervisor| stat.id.start_ticks < supervisor.start_ticks) {
                continue;
            }
            let same_session =
                !sessions_reused && self.supervisor.is_some_and(|supervisor| stat.session == supervisor.pid);
            if same_session || in_cgroup.contains(&pid) || self.marked(pid) || self.holds_lock(pid) {
                found.push(stat.id);
            }
        }
        found
    }

    // Another process with the supervisor's pid may lead another session of that number.
    fn session_number_reused(&self) -> bool {
        self.supervisor
            .is_some_and(|supervisor| Stat::read(supervisor.pid).is_some_and(|stat| stat.id != supervisor))
    }

    fn marked(&self, pid: i32) -> bool {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == self.marker))
    }

    fn holds_lock(&self, pid: i32) -> bool {
        // The kernel appends a note to the name of a file that was removed meanwhile.
        let mut removed = self.lock.as_os_str().as_bytes().to_vec();
        removed.extend_from_slice(b" (deleted)");
        let removed = PathBuf::from(OsString::from_vec(removed));
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
        descriptors.into_iter().flatten().flatten().any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|target| target == self.lock || target == removed)
        })
    }
}
