//! Why Pulumi could not be found, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use semver::Version;
use thiserror::Error;

use super::{MINIMUM_VERSION, PULUMI_VERSION};

/// A way to come by Pulumi.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// On `PATH`.
    Installed,
    /// In the cache.
    Cached,
    /// From the official release.
    Release,
    /// Built from Go modules.
    Built,
}

impl fmt::Display for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Installed => "on PATH",
            Self::Cached => "in the cache",
            Self::Release => "from the official release",
            Self::Built => "built from Go modules",
        })
    }
}

/// One way that was tried in vain.
#[derive(Debug)]
pub struct Attempt {
    /// Which way.
    pub way: Way,
    /// Why it failed.
    pub error: AttemptError,
}

/// Why one way failed.
#[derive(Debug, Error)]
pub enum AttemptError {
    /// The settings forbid this way.
    #[error("turned off by the settings")]
    TurnedOff,
    /// There is no such program.
    #[error("no {program} there")]
    Absent {
        /// The program.
        program: String,
    },
    /// Installed, but too old.
    #[error("version {found} is older than {MINIMUM_VERSION}")]
    TooOld {
        /// The version found.
        found: Version,
    },
    /// There, but it does not tell its version.
    #[error("{program} does not run: {why}")]
    DoesNotRun {
        /// The program.
        program: PathBuf,
        /// What is known.
        why: String,
    },
    /// No release is made for this kind of machine.
    #[error("there is no release for {machine}")]
    NoSuchMachine {
        /// Operating system and processor.
        machine: String,
    },
    /// The server can't be reached.
    #[error("{url} can't be reached: {why}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What is known.
        why: String,
    },
    /// The server refuses.
    #[error("{url} answers with status {status}")]
    Refused {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// The connection broke in the middle.
    #[error("only {received} bytes of {url} came in")]
    Incomplete {
        /// What was asked for.
        url: String,
        /// How much came.
        received: u64,
    },
    /// The archive is not what its checksum says.
    #[error("{url} has the SHA-256 {found}, not {expected}")]
    WrongChecksum {
        /// The archive.
        url: String,
        /// The checksum it should have.
        expected: String,
        /// The checksum it has.
        found: String,
    },
    /// The list of checksums does not name the archive.
    #[error("{url} has no checksum for {file}")]
    NoChecksum {
        /// The list.
        url: String,
        /// The archive.
        file: String,
    },
    /// The archive holds what it should not, or not what it should.
    #[error("the archive is refused: {why}")]
    BadArchive {
        /// What is wrong.
        why: String,
    },
    /// A kept program is not the one that was kept.
    #[error("{program} was changed after it was stored")]
    Changed {
        /// The program.
        program: String,
    },
    /// Go could not build it.
    #[error("building {program} failed: {last_lines}")]
    BuildFailed {
        /// What was built.
        program: &'static str,
        /// The end of what Go said.
        last_lines: String,
    },
    /// It took too long.
    #[error("{what} took more than {} s", limit.as_secs())]
    TooSlow {
        /// What.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// This machine's disk or processes.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Why there is no Pulumi.
#[derive(Debug, Error)]
pub enum ToolsError {
    /// Every way failed.
    #[error(
        "Pulumi is not there ({}). Install Pulumi {MINIMUM_VERSION} or newer on PATH, or let this machine reach \
         the release {PULUMI_VERSION}, or install Go so that it can be built",
        list(attempts)
    )]
    NoWay {
        /// Every way that was tried.
        attempts: Vec<Attempt>,
    },
    /// The cache folder is out of order.
    #[error("the folder {folder} can't be used for Pulumi; check that it is writable and not full")]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn list(attempts: &[Attempt]) -> String {
    let each: Vec<String> =
        attempts.iter().map(|attempt| format!("{}: {}", attempt.way, attempt.error)).collect();
    each.join("; ")
}
