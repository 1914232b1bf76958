//! The supervisor's signals as a descriptor that can be waited for together with others.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// What somebody asked the supervisor for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGTERM or SIGINT: stop gracefully.
    Stop,
    /// SIGUSR1: kill at once.
    Kill,
}

/// The end of the supervisor's signals.
pub(crate) struct Signals(File);

const WATCHED: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1];

impl Signals {
    /// Blocks the watched signals and ignores SIGHUP. Must run before any thread is started.
    #[expect(unsafe_code, reason = "rustix has no signalfd and no signal masks")]
    pub(crate) fn watch() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set before anything reads it; all pointers are valid for
        // the calls; SIG_IGN is a valid disposition; the descriptor is new and owned by nobody else.
        let descriptor = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in WATCHED {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            // Inherited by the steps on purpose: a hang-up kills Pulumi without any clean-up.
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            let raw = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(raw)
        };
        Ok(Self(descriptor.into()))
    }

    /// The next signal that has arrived, without waiting.
    pub(crate) fn next(&mut self) -> Option<Asked> {
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        if self.0.read(&mut record).ok()? != record.len() {
            return None;
        }
        // The record's first field is the signal's number.
        let number = u32::from_ne_bytes(record.first_chunk().copied()?);
        let kill = i32::try_from(number).is_ok_and(|number| number == libc::SIGUSR1);
        Some(if kill { Asked::Kill } else { Asked::Stop })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets a forked child receive signals again. Safe to call between fork and exec.
#[expect(unsafe_code, reason = "rustix has no signal masks")]
pub(crate) fn unblock_all() -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both functions are async-signal-safe and the set is initialised by the first.
    let result = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
