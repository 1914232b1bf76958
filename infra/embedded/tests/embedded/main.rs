//! What is the embedded adapters' own: files, locks, damage, a full disk, backups, schedules.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends by panicking")]

mod backup;
mod crash;
mod disk;
mod folder;
mod full;
mod open;
mod schedules;
mod secrets;

use std::path::Path;
use std::sync::Arc;

use contract::Sample;
use domain::EnvironmentSlot;
use ports::commit::Committed;
use ports::{Commit, Store};
use runtime_cloud_embedded::{Database, SqliteRows};

fn open(folder: &Path) -> Database {
    Database::open(&folder.join("store.sqlite")).unwrap()
}

fn store(database: &Database) -> Store {
    Store::new(Arc::new(SqliteRows(database.clone())))
}

/// Commits two slots whose epochs are always the same.
async fn pair(store: &Store, sample: &Sample) {
    let (one, two) = (Sample::slot_id("acme", "one"), Sample::slot_id("acme", "two"));
    let step =
        |slot: &domain::Versioned<EnvironmentSlot>| slot.decide(Sample::step(), Sample::now()).unwrap();
    let commit = match (store.load::<EnvironmentSlot>(&one).await.unwrap(), store.load(&two).await.unwrap()) {
        (Some(one), Some(two)) => Commit::of(step(&one), &sample.cx()).and(step(&two)),
        (_, _) => Commit::of(Sample::slot("acme", "one"), &sample.cx()).and(Sample::slot("acme", "two")),
    };
    assert_eq!(store.commit(commit).await.unwrap(), Committed::Yes);
}

/// The epoch of the pair; panics where it was torn.
async fn epoch(store: &Store) -> u32 {
    let one = store.need::<EnvironmentSlot>(&Sample::slot_id("acme", "one")).await.unwrap();
    let two = store.need::<EnvironmentSlot>(&Sample::slot_id("acme", "two")).await.unwrap();
    assert_eq!(one.epoch, two.epoch, "a commit was torn");
    one.epoch
}
