//! An AWS emulator of a test's own, and a proxy before it that fails as AWS does. Both are programs from the Python
//! package index; `cargo xtask test` puts them into a folder and names it in `RUNTIME_CLOUD_TEST_EMULATOR`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test without its emulator has failed"
)]

mod calls;
mod emulator;
mod programs;
mod proxy;

pub use emulator::Emulator;
pub use proxy::Proxy;
