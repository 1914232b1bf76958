//! What a check says, and why a task can't go on.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Something to correct: where it is, what it is, what to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, from the workspace's folder.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub to_do: String,
}

impl Problem {
    /// A problem in a line of a file.
    pub fn new(file: &Path, line: usize, what: impl Into<String>, to_do: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), line, what: what.into(), to_do: to_do.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}; {}", self.file.display(), self.line, self.what, self.to_do)
    }
}

/// Why a task can't go on, in a sentence for a person.
#[derive(Debug)]
pub struct Stop(String);

impl Stop {
    /// A reason.
    pub fn new(reason: impl Into<String>) -> Stop {
        Stop(reason.into())
    }

    /// What the system said about `what`.
    pub fn of(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Stop {
        move |error| Stop(format!("{what}: {error}"))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Stop {}
