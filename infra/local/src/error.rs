//! What can go wrong, told so that a person knows what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the provider itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalError {
    #[error(
        "{variable} is not set: set it to the absolute path of the folder that holds this environment's services and files",
        variable = crate::root::ROOT_VARIABLE
    )]
    RootMissing,
    #[error(
        "{variable} is `{}`, which is not an absolute path: give the whole path, starting with `/`",
        .0.display(),
        variable = crate::root::ROOT_VARIABLE
    )]
    RootRelative(PathBuf),
    #[error("could not {doing} `{}`: {source}", .path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "`{name}` already belongs to {owner}: give this resource another name, or import the existing one (import: {name:?})"
    )]
    Taken { name: String, owner: String },
    #[error(
        "`{path}` exists in the environment's files and no resource made it: remove it, choose another path, or import it (import: {path:?})"
    )]
    Unmanaged { path: String },
    #[error("another process works on `{name}` since {seconds} s: wait for it to end and run again")]
    Busy { name: String, seconds: u64 },
    #[error("cancelled before anything was changed: run again when you are ready")]
    Cancelled,
    #[error(
        "could not start `{program}` for replica {replica} of `{name}`: {source}; check `command`, `workingDirectory` and the PATH in `env`"
    )]
    Spawn { name: String, program: String, replica: u32, source: io::Error },
    #[error(
        "processes {pids:?} of `{name}` survived SIGKILL: they hang in the kernel; look at them with `ps` and run again"
    )]
    Unkillable { name: String, pids: Vec<u32> },
    #[error("the record `{}` can't be read ({reason}): delete the resource's folder after its processes are stopped, or restore it", .path.display())]
    Record { path: PathBuf, reason: String },
    #[error(
        "`{path}` leaves the environment's files ({reason}): use a path below it, without `..` and links"
    )]
    Escape { path: String, reason: &'static str },
    #[error("{0}")]
    Inputs(String),
    #[error("this provider has no resource type `{0}`: use local:index:Service or local:index:File")]
    UnknownType(String),
}

impl LocalError {
    /// For `map_err`: names what was being done, and to what.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    /// The same for errors of system calls.
    pub(crate) fn sys(doing: &'static str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source: source.into() }
    }
}

impl From<LocalError> for io::Error {
    fn from(error: LocalError) -> Self {
        match error {
            LocalError::Io { source, doing, path } => {
                Self::new(source.kind(), format!("could not {doing} `{}`: {source}", path.display()))
            }
            other => Self::other(other.to_string()),
        }
    }
}
