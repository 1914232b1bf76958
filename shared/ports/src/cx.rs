//! What a piece of work knows of itself: the message that caused it, its time, its attempt, its deadline.

use chrono::{DateTime, Utc};
use domain::ProvisioningRun;
use events::TraceParent;
use uuid::Uuid;

/// The context of one delivery.
#[derive(Debug, Clone)]
pub struct Cx {
    /// The message that is being handled.
    pub message: Uuid,
    /// The chain of work that it belongs to.
    pub correlation: String,
    /// The trace that came with the message; None: its chain of work has one of its own.
    pub trace: Option<TraceParent>,
    /// When handling began.
    pub now: DateTime<Utc>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// When handling has to have ended.
    pub deadline: DateTime<Utc>,
}

impl Cx {
    /// The same in the chain of a run, whatever woke it.
    pub fn of_run(&self, run: &ProvisioningRun) -> Cx {
        let mut cx = self.clone();
        if let Some(chain) = &run.chain {
            cx.correlation.clone_from(&chain.correlation);
            cx.trace = Some(chain.trace);
        }
        cx
    }

    /// The span of this piece of work.
    pub fn span(&self) -> TraceParent {
        self.trace.unwrap_or_else(|| TraceParent::of_chain(&self.correlation)).handling(self.message)
    }
}
