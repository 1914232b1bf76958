//! What the functions share: how a message comes in, which adapter stands behind which port. Each function is a thin
//! door in `src/bin/`.

pub mod door;
pub mod job;
pub mod metrics;
pub mod queue;
pub mod runner_finished;
pub mod stream;
pub mod targets;
pub mod tools;
pub mod wiring;
