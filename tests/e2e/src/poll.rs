//! Waiting without guessing: look again until it is so, up to a limit.

use std::time::{Duration, Instant};

/// Nothing here takes longer on two busy cores.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Looks until there is something; panics with `what` after the limit.
#[expect(clippy::panic, reason = "a test that waits in vain has failed")]
pub fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if Instant::now() > end {
            panic!("waited in vain for {what}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Looks until it is so.
pub fn until(what: &str, mut look: impl FnMut() -> bool) {
    poll(what, || look().then_some(()));
}
