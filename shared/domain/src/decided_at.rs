//! When a person decided, as another machine's clock says.

use chrono::{DateTime, TimeDelta, Utc};

use crate::aggregate::Refusal;

/// How far ahead of ours another clock may be.
pub const AHEAD: TimeDelta = TimeDelta::minutes(5);

/// A decision that is dated in the future. It would stand before every decision that really comes later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "decidedAt is {at}, more than {} minutes after now ({now}); correct the sender's clock and send a new event",
    AHEAD.num_minutes()
)]
pub struct DatedAhead {
    /// What the event says.
    pub at: DateTime<Utc>,
    /// What our clock says.
    pub now: DateTime<Utc>,
}

impl Refusal for DatedAhead {
    fn code(&self) -> &'static str {
        "dated-ahead"
    }
}

/// Refuses a decision that is dated in the future.
pub fn check(at: DateTime<Utc>, now: DateTime<Utc>) -> Result<(), DatedAhead> {
    if at > now + AHEAD { Err(DatedAhead { at, now }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_past_and_a_clock_that_is_a_little_ahead_are_believed() {
        let now = DateTime::<Utc>::UNIX_EPOCH;
        for minutes in [-1_000_000, 0, 5] {
            assert_eq!(check(now + TimeDelta::minutes(minutes), now), Ok(()));
        }
        let refused = check(now + AHEAD + TimeDelta::seconds(1), now).unwrap_err();
        assert!(refused.to_string().contains("decidedAt"), "{refused}");
    }
}
