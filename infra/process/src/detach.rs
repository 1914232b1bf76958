//! Letting a program out of a session, for what a run leaves behind on purpose.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::{MARKER_VARIABLE, cgroup};

/// Makes a command start outside the session it is started from: without the marker, the lock and other
/// inherited descriptors, in a process session of its own and outside the session's cgroup.
///
/// Used by the local provider for its services, which live on after the run; everything else that is left
/// of a session is killed at its end. Its standard streams must not be inherited.
#[expect(unsafe_code, reason = "leaving a session has to happen between fork and exec")]
pub fn detach(command: &mut Command) -> io::Result<()> {
    command.env_remove(MARKER_VARIABLE);
    let outside: Option<File> = match cgroup::outside() {
        Some(folder) => Some(cgroup::entrance(&folder)?),
        None => None,
    };
    let leave = move || {
        rustix::process::setsid()?;
        if let Some(mut entrance) = outside.as_ref() {
            entrance.write_all(b"0")?;
        }
        close_on_exec_from_3()
    };
    // SAFETY: the closure only makes system calls on values made before the fork; it allocates nothing.
    unsafe {
        command.pre_exec(leave);
    }
    Ok(())
}

#[expect(unsafe_code, reason = "rustix has no close_range")]
fn close_on_exec_from_3() -> io::Result<()> {
    let (first, last, flags) = (3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: the call only marks descriptors; the kernel closes them at exec.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
