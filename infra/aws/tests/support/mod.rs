//! What the tests of the adapters need: an account in an emulator.

mod account;
mod stream_letters;
mod unwrapped;

pub use account::{Account, connect};
