//! A clock that a test moves by hand, and ids that count.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use ports::{Clock, Ids};
use uuid::Uuid;

/// Stands still until it is moved.
pub struct HandClock(Mutex<DateTime<Utc>>);

impl HandClock {
    /// Stands at a full hour.
    pub fn new() -> HandClock {
        HandClock(Mutex::new(Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()))
    }
    /// Moves it on.
    pub fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
    /// Sets it.
    pub fn set(&self, time: DateTime<Utc>) {
        *self.0.lock().unwrap() = time;
    }
}

impl Default for HandClock {
    fn default() -> Self {
        HandClock::new()
    }
}

impl Clock for HandClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap()
    }
}

/// Ids in their order, so that a test is the same each time.
#[derive(Debug, Default)]
pub struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn fresh(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1)
    }
}
