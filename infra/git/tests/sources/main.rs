//! Program sources from repositories made by Git itself.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects and stops there"
)]

mod http;
mod local;
mod refused;
mod server;
mod stage;
