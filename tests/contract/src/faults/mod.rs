//! Ports that fail as real ones do: in an order that the test says, so that a failure can be repeated.

mod bus;
mod queue;
mod receipts;
mod rows;
mod schedule;

pub use bus::FaultyBus;
pub use queue::FaultyQueue;
pub use receipts::FaultyReceipts;
pub use rows::FaultyRows;
pub use schedule::{Fault, Faults};
