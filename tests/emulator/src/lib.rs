//! An AWS emulator of a test's own, a proxy before it that fails as AWS does, and an issuer of tokens. The first two
//! are programs from the Python package index; `cargo xtask test` puts them into a folder and names it in
//! `RUNTIME_CLOUD_TEST_EMULATOR`. A recorder writes down what functions ask of the emulator.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test without its emulator has failed"
)]

mod calls;
mod cargo_lambda;
mod emulator;
mod issuer;
mod programs;
mod proxy;
mod recorded;
mod recorder;
pub mod rights;
mod tasks;
pub mod write_units;

pub use cargo_lambda::CargoLambda;
pub use emulator::Emulator;
pub use issuer::{Issuer, SigningKey, encoded, seconds_from_now};
pub use proxy::Proxy;
pub use recorded::Recorded;
pub use recorder::Recorder;
pub use tasks::{RunningTask, Tasks};
