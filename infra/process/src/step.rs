//! Starting one step's program with its secrets in pipes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::session_dir::create_private;
use crate::{Graceful, MARKER_VARIABLE, SecretFile, Secrets, Stdin, Step, cgroup, signals};

/// A step's program on its way.
pub(crate) struct Running {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
    pub(crate) outputs: [File; 2],
}

/// Where a step runs.
pub(crate) struct Place<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) number: usize,
    pub(crate) marker: &'a str,
    pub(crate) cgroup: Option<&'a Path>,
}

impl Graceful {
    pub(crate) fn signal(self) -> Signal {
        match self {
            Self::Interrupt => Signal::INT,
            Self::Terminate => Signal::TERM,
        }
    }
}

/// Starts the program of a step. An error means that it does not run.
pub(crate) fn spawn(step: &Step, place: &Place<'_>, secrets: &Secrets) -> io::Result<Running> {
    let (program, arguments) = step.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let stdout = create_private(&place.dir.join(step.stdout_file(place.number)))?;
    let stderr = create_private(&place.dir.join(step.stderr_file(place.number)))?;
    let outputs = [stdout.try_clone()?, stderr.try_clone()?];
    let stdin = match &step.stdin {
        Stdin::Null => Stdio::null(),
        Stdin::Secret(name) => Stdio::from(filled_pipe(secrets, name)?),
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&step.env).env(MARKER_VARIABLE, place.marker);
    for (variable, secret) in &step.secret_env {
        command.env(variable, OsStr::from_bytes(value(secrets, secret)?));
    }
    let mut handed_on = Vec::new();
    for (variable, file) in &step.secret_files {
        let descriptor = match file {
            SecretFile::Once(name) => filled_pipe(secrets, name)?,
            SecretFile::Rereadable(name) => memory_file(secrets, name)?,
        };
        command.env(variable, format!("/dev/fd/{}", descriptor.as_raw_fd()));
        handed_on.push(descriptor);
    }
    command.current_dir(&step.cwd).stdin(stdin).stdout(stdout).stderr(stderr);
    let entrance = place.cgroup.map(cgroup::entrance).transpose()?;
    prepare_child(&mut command, entrance, handed_on, step.graceful.signal());
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(error) => {
            // Nobody may run that can't be watched.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            return Err(error.into());
        }
    };
    Ok(Running { pid, handle, outputs })
}

fn value<'a>(secrets: &'a Secrets, name: &str) -> io::Result<&'a [u8]> {
    secrets.get(name).ok_or_else(|| io::Error::other(format!("the secret {name} is missing")))
}

/// A pipe with the secret in it and no writer: the first reader empties it, later ones find nothing.
fn filled_pipe(secrets: &Secrets, name: &str) -> io::Result<OwnedFd> {
    let value = value(secrets, name)?;
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // Fits without a reader: the job's check has bounded it.
    File::from(writer).write_all(value)?;
    Ok(reader)
}

/// A file without a name or disk that holds the secret and can't be changed.
fn memory_file(secrets: &Secrets, name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("secret", flags)?);
    file.write_all(value(secrets, name)?)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

#[expect(unsafe_code, reason = "signal mask, cgroup and death signal have to be set between fork and exec")]
fn prepare_child(command: &mut Command, entrance: Option<File>, handed_on: Vec<OwnedFd>, graceful: Signal) {
    let supervisor = rustix::process::getpid();
    let prepare = move || {
        signals::unblock_all()?;
        if let Some(mut entrance) = entrance.as_ref() {
            entrance.write_all(b"0")?;
        }
        // Without its supervisor nobody would record the end; it is asked to stop, not killed.
        rustix::process::set_parent_process_death_signal(Some(graceful))?;
        if rustix::process::getppid() != Some(supervisor) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        for descriptor in &handed_on {
            fcntl_setfd(descriptor.as_fd(), FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls on values made before the fork; it allocates nothing.
    unsafe {
        command.pre_exec(prepare);
    }
}
