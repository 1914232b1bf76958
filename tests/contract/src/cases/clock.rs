//! The time and randomness.

use std::collections::BTreeSet;
use std::sync::Arc;

use ports::{Clock, Ids};

/// A clock and a source of ids.
#[derive(Clone)]
pub struct Subject {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The ids.
    pub ids: Arc<dyn Ids>,
}

crate::case::table! {
    /// Each with the machine's own.
    Subject:
    time_is_later_than_this_was_written,
    time_does_not_run_backwards,
    ids_are_never_the_same,
}

async fn time_is_later_than_this_was_written(subject: Subject) {
    assert!(subject.clock.now().timestamp() > 1_767_225_600);
}

async fn time_does_not_run_backwards(subject: Subject) {
    let times: Vec<_> = (0..1000).map(|_| subject.clock.now()).collect();
    assert!(times.windows(2).all(|w| w[0] <= w[1]));
}

async fn ids_are_never_the_same(subject: Subject) {
    let ids: BTreeSet<_> = (0..1000).map(|_| subject.ids.fresh()).collect();
    assert_eq!(ids.len(), 1000);
    assert!(ids.iter().all(|id| id.get_version_num() == 4));
}
