//! Randomness, passed in.

use uuid::Uuid;

/// Makes ids that nobody else makes.
pub trait Ids: Send + Sync {
    /// A random UUID (version 4).
    fn fresh(&self) -> Uuid;
}
