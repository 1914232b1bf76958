//! What no database would take is refused in the port, so that all of them are equally strict (Rule 4).

use chrono::TimeDelta;
use domain::EnvironmentSlot;
use ports::Commit;
use ports::commit::{CommitError, MAX_BYTES, MAX_ITEM, MAX_OPS, Op};

use super::Database;
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    ninety_operations_are_taken,
    more_than_ninety_operations_are_refused,
    a_commit_of_more_than_its_bytes_is_refused,
    an_item_of_more_than_its_bytes_is_refused,
    a_key_twice_is_refused,
    a_limit_that_is_counted_twice_is_refused,
}

fn of(db: &Database) -> Commit {
    Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())
}

/// Refused by the store and, where somebody goes around it, by the adapter; nothing is written.
async fn refused(db: &Database, commit: Commit, what: &str) {
    for answer in [db.store().commit(commit.clone()).await, db.bare.write(&commit).await] {
        let Err(CommitError::NotApplied(error)) = answer else { panic!("{answer:?}") };
        assert!(!error.is_temporary(), "it would be tried again");
        assert!(error.to_string().contains(what), "{error}");
    }
    assert!(db.store().load::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap().is_none());
}

async fn ninety_operations_are_taken(db: Database) {
    let mut commit = of(&db);
    for n in 1..MAX_OPS {
        commit = commit.and(Sample::slot("acme", &format!("other-{n}")));
    }
    assert_eq!(commit.ops.len(), MAX_OPS);
    db.written(commit).await;
}

async fn more_than_ninety_operations_are_refused(db: Database) {
    let mut commit = of(&db);
    for n in 0..MAX_OPS {
        commit = commit.claim(format!("claim-{n}"), Sample::now() + TimeDelta::hours(1));
    }
    refused(&db, commit, "91 operations").await;
}

fn grow(commit: &mut Commit, bytes: usize) {
    if let Some(Op::Put { row, .. }) = commit.ops.last_mut() {
        // Still JSON: a string of that many bytes.
        row.body = serde_json::to_vec(&"x".repeat(bytes - 2)).unwrap();
    }
}

async fn a_commit_of_more_than_its_bytes_is_refused(db: Database) {
    let mut commit = of(&db);
    for n in 0..MAX_BYTES / 300_000 {
        commit = commit.and(Sample::slot("acme", &format!("big-{n}")));
        grow(&mut commit, 300_000);
    }
    commit = commit.and(Sample::slot("acme", "last"));
    grow(&mut commit, 300_000);
    refused(&db, commit, &MAX_BYTES.to_string()).await;
}

async fn an_item_of_more_than_its_bytes_is_refused(db: Database) {
    let mut commit = of(&db).and(Sample::slot("acme", "big"));
    grow(&mut commit, MAX_ITEM);
    refused(&db, commit, &MAX_ITEM.to_string()).await;
}

async fn a_key_twice_is_refused(db: Database) {
    refused(&db, of(&db).and(Sample::slot("acme", "e1")), "twice").await;
    let until = Sample::now() + TimeDelta::hours(1);
    refused(&db, of(&db).claim("one", until).claim("one", until), "twice").await;
    refused(&db, of(&db).count("quota", &[("a", 1)]).set_limit("quota", "b", None, 1), "twice").await;
}

async fn a_limit_that_is_counted_twice_is_refused(db: Database) {
    let other = Commit::of(Sample::slot("acme", "e2"), &db.sample.cx());
    db.written(other.set_limit("quota", "runs", None, 4)).await;
    refused(&db, of(&db).count("quota", &[("runs", 3), ("runs", 3)]), "twice").await;
    assert_eq!(db.store().counter("quota").await.unwrap()[0].free, 4);
}
