//! The time, passed in.

use chrono::{DateTime, Utc};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now, UTC.
    fn now(&self) -> DateTime<Utc>;
}
