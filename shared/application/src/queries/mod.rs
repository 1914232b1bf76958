//! What people look at.

pub mod verify_receipts;

pub use verify_receipts::{ChainReport, verify_receipts};
