//! What the functions share: how a message comes in, which adapter stands behind which port. Each function is a thin
//! door in `src/bin/`.

pub mod api;
pub mod door;
pub mod identity;
pub mod job;
pub mod keys;
pub mod metrics;
pub mod operations;
pub mod queue;
pub mod runner_finished;
pub mod signatures;
pub mod stream;
pub mod targets;
pub mod tools;
pub mod wiring;
