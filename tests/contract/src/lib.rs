//! What every adapter of a port must do, as tables of named cases, and decorators that make a port fail as real ones
//! do. An adapter's own tests run the tables, plain and under faults.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a case ends by panicking: it is a test"
)]
#![expect(clippy::indexing_slicing, reason = "a case that indexes wrongly fails, which is what it is for")]

mod case;
pub mod cases;
pub mod faults;
mod hand_clock;
mod sample;

pub use case::Case;
pub use hand_clock::{CountedIds, HandClock};
pub use sample::Sample;
