//! The chain of work that a run belongs to.

use events::TraceParent;
use serde::{Deserialize, Serialize};

/// What goes on with every event and message of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// As its first event said.
    pub correlation: String,
    /// The span that declared the run.
    pub trace: TraceParent,
}

/// A longer one is nobody's id.
const LONGEST: usize = 256;

impl Chain {
    /// Of a correlation that came from outside; None where it is too long to be kept.
    pub fn of(correlation: &str, trace: TraceParent) -> Option<Chain> {
        (correlation.len() <= LONGEST).then(|| Chain { correlation: correlation.to_owned(), trace })
    }
}
