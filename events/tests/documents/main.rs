//! The documents of the events: a JSON Schema and a sample of each, made from the code and compared with what is
//! checked in. `UPDATE_DOCUMENTS=1 cargo test -p runtime-cloud-events` writes them anew.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends by panicking")]

mod checked_in;
mod fields;
mod samples;
mod wire;
