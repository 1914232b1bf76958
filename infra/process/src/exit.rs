//! How a session ended: the record the supervisor leaves behind.

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// The end of a session, written once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// One entry per step that was started.
    pub steps: Vec<StepExit>,
    /// Why no more steps ran.
    pub ended_by: EndedBy,
    /// When the supervisor began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// When everything had ended, in milliseconds since 1970.
    pub ended_unix_ms: u64,
    /// True when something had to be killed while a step still ran.
    pub killed: bool,
    /// Processes of the session that outlived even the kill; empty as a rule.
    pub survivors: Vec<ProcessId>,
}

/// The end of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepExit {
    /// The step's name.
    pub name: String,
    /// Its exit code or the signal that ended it.
    pub status: Status,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// When it ended, in milliseconds since 1970.
    pub ended_unix_ms: u64,
    /// It ran past its own time limit and was stopped for that.
    pub timed_out: bool,
}

/// What the kernel said about an ended process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It ended by itself with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// Every step ran and ended with an accepted code, even if a stop was asked for meanwhile.
    Completed,
    /// A step ended with a code it does not accept, or was too slow.
    StepFailed {
        /// The step.
        name: String,
    },
    /// Somebody asked for it.
    Stopped,
    /// The job's deadline passed.
    Deadline,
    /// The steps wrote more than the job allows.
    OutputLimit,
    /// A step's program could not be started.
    SpawnFailed {
        /// The step.
        name: String,
        /// What the system said.
        why: String,
    },
}

impl Exit {
    /// The end of the step of that name, if it was started.
    pub fn step(&self, name: &str) -> Option<&StepExit> {
        self.steps.iter().find(|step| step.name == name)
    }
}
