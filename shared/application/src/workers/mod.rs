//! The workers.

pub mod applier;
pub mod planner;
pub mod run_watch;

pub use applier::{Applier, ApplyRun};
pub use planner::{PlanRun, Planner};
pub use run_watch::{DueRuns, RunWatch, WatchRuns, Watched};
