//! What people look at.

pub mod checks;
pub mod runs;
pub mod verify_receipts;

pub use checks::{Check, checks};
pub use runs::{Listed, RunView};
pub use verify_receipts::{Chain, ChainReport};
