//! An AWS emulator of a test's own, a proxy before it that fails as AWS does, and an issuer of tokens. The first two
//! are programs from the Python package index; `cargo xtask test` puts them into a folder and names it in
//! `RUNTIME_CLOUD_TEST_EMULATOR`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without its emulator has failed"
)]

mod calls;
mod emulator;
mod issuer;
mod programs;
mod proxy;

pub use emulator::Emulator;
pub use issuer::{Issuer, SigningKey, encoded, seconds_from_now};
pub use proxy::Proxy;
