//! What the tests of the adapters need: an account in an emulator.

mod account;
pub mod account_faults;
mod stream_letters;
mod unwrapped;

pub use account::{Account, connect};
