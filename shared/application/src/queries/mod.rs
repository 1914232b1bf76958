//! What people look at.

pub mod runs;
pub mod verify_receipts;

pub use runs::RunView;
pub use verify_receipts::{ChainReport, verify_receipts};
