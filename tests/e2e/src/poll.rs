//! Waiting without guessing: look again until it is so, up to a limit.

use std::time::{Duration, Instant};

/// Nothing here takes longer on two busy cores: where a message is lost, RunWatch looks at an apply that runs elsewhere
/// after three minutes, and a queue shows a message again after six.
pub const LIMIT: Duration = Duration::from_secs(540);

/// Looks until there is something; panics with `what` after the limit.
pub fn poll<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    poll_with(what, String::new, look)
}

/// The same, and then says more.
#[expect(clippy::panic, reason = "a test that waits in vain has failed")]
pub fn poll_with<T>(what: &str, more: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if Instant::now() > end {
            panic!("waited in vain for {what}\n{}", more());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Looks until it is so.
pub fn until(what: &str, mut look: impl FnMut() -> bool) {
    poll(what, || look().then_some(()));
}
