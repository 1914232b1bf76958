//! Whether a session lives, has ended, or is provably dead.

use crate::{Exit, ProcessId};

/// What is known about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// Its directory does not exist.
    NeverStarted,
    /// Its supervisor lives (or is just coming up, then it is not named yet).
    Running {
        /// The supervisor.
        supervisor: Option<ProcessId>,
        /// When it began, in milliseconds since 1970.
        since_unix_ms: u64,
    },
    /// It left its record.
    Finished {
        /// The record.
        exit: Exit,
        /// Processes of the session that live even now; empty as a rule.
        survivors: Vec<ProcessId>,
    },
    /// It left no record and nothing of it lives.
    Dead(Proof),
    /// No record, and death can't be proved: a person has to look.
    Unknown {
        /// What stands in the way of the proof.
        why: String,
        /// The processes known to live.
        survivors: Vec<ProcessId>,
    },
}

/// Why a session is certainly dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// False when no step can ever have been started.
    pub may_have_run: bool,
    /// What the proof rests on.
    pub evidence: Evidence,
}

/// What a proof of death rests on. The run's lock is free in each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The machine was started anew since.
    Rebooted,
    /// Same boot; the session's cgroup is empty and no process carries its marker.
    CgroupEmpty,
    /// Same boot, no cgroup; no process carries its marker or belongs to its session.
    NobodyLeft,
}
