//! The tables, one file per port or promise.

pub mod artifacts;
pub mod bus;
pub mod claims;
pub mod clock;
pub mod commits;
pub mod config;
pub mod counters;
pub mod crashes;
pub mod crowds;
mod database;
pub mod letters;
pub mod limits;
pub mod listings;
pub mod lost_answers;
pub mod queue_groups;
pub mod queue_leases;
pub mod receipts;
pub mod secrets;

pub use database::{Database, until};
