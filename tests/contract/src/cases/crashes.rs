//! Whoever writes dies: before or after, never in the middle.

use std::sync::Arc;

use domain::aggregate::Aggregate;
use domain::{DeploymentSpecification, EnvironmentSlot};
use ports::{Commit, Store};

use super::Database;
use crate::faults::{Fault, Faults, FaultyRows};
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    a_crash_before_a_write_leaves_nothing,
    a_crash_after_a_write_leaves_all,
    a_dead_process_writes_and_reads_nothing,
}

async fn crash(db: &Database, fault: Fault) -> (usize, usize) {
    let faults = Arc::new(Faults::nth(1, fault));
    let store = Store::new(Arc::new(FaultyRows::new(Arc::clone(&db.bare), Arc::clone(&faults))));
    let change = Sample::specification("acme", "e1");
    let id = change.after().id();
    let commit = Commit::of(change, &db.sample.cx()).and(Sample::slot("acme", "e1"));
    assert!(store.commit(commit).await.is_err());
    assert!(faults.is_dead());
    let store = Store::new(Arc::clone(&db.bare));
    let specification = store.load::<DeploymentSpecification>(&id).await.unwrap();
    let slot = store.load::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap();
    let rows = usize::from(specification.is_some()) + usize::from(slot.is_some());
    (rows, db.letters.pending(10).await.unwrap().len())
}

async fn a_crash_before_a_write_leaves_nothing(db: Database) {
    assert_eq!(crash(&db, Fault::CrashBefore).await, (0, 0));
}

async fn a_crash_after_a_write_leaves_all(db: Database) {
    assert_eq!(crash(&db, Fault::CrashAfter).await, (2, 1));
}

async fn a_dead_process_writes_and_reads_nothing(db: Database) {
    let faults = Arc::new(Faults::nth(1, Fault::CrashAfter));
    let store = Store::new(Arc::new(FaultyRows::new(Arc::clone(&db.bare), faults)));
    assert!(store.commit(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await.is_err());
    assert!(store.commit(Commit::of(Sample::slot("acme", "e2"), &db.sample.cx())).await.is_err());
    assert!(store.load::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.is_err());
    let store = Store::new(Arc::clone(&db.bare));
    assert!(store.load::<EnvironmentSlot>(&Sample::slot_id("acme", "e2")).await.unwrap().is_none());
}
