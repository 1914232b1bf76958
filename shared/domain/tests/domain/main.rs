//! The two provisioning machines under arbitrary commands, the routing table cell by cell, and a test for each
//! invariant of the specification.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test ends by panicking")]

extern crate runtime_cloud_domain as domain;

mod routing_table;
mod run_invariants;
mod run_machine;
mod sample;
mod slot_machine;
mod specification_invariants;
