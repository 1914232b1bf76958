//! What every adapter of a port must do, as tables of named cases, and decorators that make a port fail as real ones
//! do. An adapter's own tests run the tables, plain and under faults.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a case ends by panicking: it is a test"
)]
#![expect(clippy::indexing_slicing, reason = "a case that indexes wrongly fails, which is what it is for")]

pub mod cases;
pub mod faults;
mod hand_clock;
mod sample;

pub use hand_clock::{CountedIds, HandClock};
pub use sample::Sample;

use futures::future::BoxFuture;

/// One case: its name, and what it does with a fresh subject.
pub struct Case<S> {
    /// Its name.
    pub name: &'static str,
    /// Does it; panics where the subject fails it.
    pub run: fn(S) -> BoxFuture<'static, ()>,
}

/// A table of cases, each named after its function.
macro_rules! table {
    ($(#[$doc:meta])* $subject:ty: $($name:ident),* $(,)?) => {
        $(#[$doc])*
        pub fn table() -> Vec<$crate::Case<$subject>> {
            vec![$($crate::Case { name: stringify!($name), run: |subject| Box::pin($name(subject)) }),*]
        }
    };
}
pub(crate) use table;
