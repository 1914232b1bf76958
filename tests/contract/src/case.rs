//! One case, and tables of them.

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
        $crate::case::table! { $(#[$doc])* table $subject: $($name),* }
    };
    ($(#[$doc:meta])* $table:ident $subject:ty: $($name:ident),* $(,)?) => {
        $(#[$doc])*
        pub fn $table() -> Vec<$crate::Case<$subject>> {
            vec![$($crate::Case { name: stringify!($name), run: |subject| Box::pin($name(subject)) }),*]
        }
    };
}
pub(crate) use table;
