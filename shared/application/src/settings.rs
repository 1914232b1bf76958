//! Settings of the product, with their defaults. `docs/settings.md` is their reference table.

use chrono::TimeDelta;

/// Times and limits.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a run waits for an approval.
    pub approval_expiry: TimeDelta,
    /// How long a plan may take.
    pub plan_limit: TimeDelta,
    /// How long an apply may take.
    pub apply_limit: TimeDelta,
    /// How long after a state's deadline RunWatch looks at a run again.
    pub watch_again: TimeDelta,
    /// How long claims are kept.
    pub claim_kept: TimeDelta,
    /// The product's own baseline, for environments that bring none.
    pub baseline: Option<events::Program>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            approval_expiry: TimeDelta::hours(24),
            plan_limit: TimeDelta::minutes(10),
            apply_limit: TimeDelta::minutes(60),
            watch_again: TimeDelta::minutes(1),
            claim_kept: TimeDelta::days(14),
            baseline: None,
        }
    }
}
