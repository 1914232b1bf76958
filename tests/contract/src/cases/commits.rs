//! Puts, fences and atomicity (Rule 1).

use domain::aggregate::{Address, Aggregate};
use domain::environment_slot::SlotCommand;
use domain::{DeploymentSpecification, EnvironmentSlot, Version};
use ports::Commit;
use ports::commit::Conflict;

use super::Database;
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    a_new_row_is_read_back,
    a_row_that_is_there_is_not_put_again,
    a_row_is_replaced_at_its_version_only,
    a_row_that_is_not_there_is_not_replaced,
    versions_grow_by_one,
    a_fence_holds_while_nothing_moves,
    a_fence_refuses_once_something_moved,
    a_fence_refuses_a_row_that_is_not_there,
    a_later_condition_that_fails_leaves_nothing,
    every_condition_that_fails_is_named,
    kinds_and_tenants_do_not_share_keys,
    one_of_many_writers_wins,
}

async fn a_new_row_is_read_back(db: Database) {
    let change = Sample::slot("acme", "e1");
    db.written(Commit::of(change.clone(), &db.sample.cx())).await;
    let read = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap();
    assert_eq!(*read, *change.after());
    assert_eq!(read.version(), Version(1));
    let gone = db.store().load::<EnvironmentSlot>(&Sample::slot_id("acme", "e2")).await.unwrap();
    assert!(gone.is_none());
    let missing = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e2")).await.unwrap_err();
    assert!(!missing.is_temporary() && missing.to_string().contains("e2"));
}

async fn a_row_that_is_there_is_not_put_again(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let conflicts = db.refused(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let key = Sample::slot_id("acme", "e1").key(EnvironmentSlot::KIND);
    assert_eq!(conflicts, [Conflict::Exists(key)]);
}

async fn a_row_is_replaced_at_its_version_only(db: Database) {
    let id = Sample::slot_id("acme", "e1");
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let read = db.store().need::<EnvironmentSlot>(&id).await.unwrap();
    let one = read.decide(Sample::step(), Sample::now()).unwrap();
    let two = read.decide(SlotCommand::Clear, Sample::now()).unwrap();
    db.written(Commit::of(one, &db.sample.cx())).await;
    let conflicts = db.refused(Commit::of(two, &db.sample.cx())).await;
    assert_eq!(conflicts, [Conflict::Changed(id.key(EnvironmentSlot::KIND))]);
    assert_eq!(db.store().need::<EnvironmentSlot>(&id).await.unwrap().epoch, 2);
}

async fn a_row_that_is_not_there_is_not_replaced(db: Database) {
    let never = domain::Versioned::loaded(Version(3), Sample::slot("acme", "e1").after().clone());
    let change = never.decide(Sample::step(), Sample::now()).unwrap();
    let conflicts = db.refused(Commit::of(change, &db.sample.cx())).await;
    assert_eq!(conflicts, [Conflict::Changed(never.key())]);
}

async fn versions_grow_by_one(db: Database) {
    let id = Sample::slot_id("acme", "e1");
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    for version in 1..=5 {
        let read = db.store().need::<EnvironmentSlot>(&id).await.unwrap();
        assert_eq!(read.version(), Version(version));
        db.written(Commit::of(read.decide(Sample::step(), Sample::now()).unwrap(), &db.sample.cx())).await;
    }
}

async fn a_fence_holds_while_nothing_moves(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let fence = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap();
    for environment in ["e2", "e3"] {
        db.written(Commit::of(Sample::slot("acme", environment), &db.sample.cx()).unchanged(&fence)).await;
    }
}

async fn a_fence_refuses_once_something_moved(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let fence = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap();
    db.written(Commit::of(fence.decide(Sample::step(), Sample::now()).unwrap(), &db.sample.cx())).await;
    let conflicts =
        db.refused(Commit::of(Sample::slot("acme", "e2"), &db.sample.cx()).unchanged(&fence)).await;
    assert_eq!(conflicts, [Conflict::Changed(fence.key())]);
    assert!(db.store().load::<EnvironmentSlot>(&Sample::slot_id("acme", "e2")).await.unwrap().is_none());
}

async fn a_fence_refuses_a_row_that_is_not_there(db: Database) {
    let never = domain::Versioned::loaded(Version(1), Sample::slot("acme", "e1").after().clone());
    let conflicts =
        db.refused(Commit::of(Sample::slot("acme", "e2"), &db.sample.cx()).unchanged(&never)).await;
    assert_eq!(conflicts, [Conflict::Changed(never.key())]);
}

// Rule 1: the last of many operations fails, and nothing of the others is there: rows, counters, claims, letters.
async fn a_later_condition_that_fails_leaves_nothing(db: Database) {
    db.written(
        Commit::of(Sample::slot("acme", "taken"), &db.sample.cx()).set_limit("quota", "runs", None, 5),
    )
    .await;
    let mut commit = Commit::of(Sample::specification("acme", "e1"), &db.sample.cx())
        .count("quota", &[("runs", 2)])
        .claim("window", Sample::now() + chrono::TimeDelta::hours(1));
    for n in 0..40 {
        commit = commit.and(Sample::slot("acme", &format!("new-{n}")));
    }
    let conflicts = db.refused(commit.and(Sample::slot("acme", "taken"))).await;
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    for n in 0..40 {
        let id = Sample::slot_id("acme", &format!("new-{n}"));
        assert!(db.store().load::<EnvironmentSlot>(&id).await.unwrap().is_none());
    }
    let id = Sample::specification("acme", "e1").after().id();
    assert!(db.store().load::<DeploymentSpecification>(&id).await.unwrap().is_none());
    assert_eq!(db.store().counter("quota").await.unwrap()[0].free, 5);
    assert!(db.letters.pending(10).await.unwrap().is_empty());
    let again = Commit::of(Sample::slot("acme", "e1"), &db.sample.cx());
    db.written(again.claim("window", Sample::now() + chrono::TimeDelta::hours(1))).await;
}

async fn every_condition_that_fails_is_named(db: Database) {
    let until = Sample::now() + chrono::TimeDelta::hours(1);
    let first = Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())
        .and(Sample::slot("acme", "e2"))
        .set_limit("quota", "runs", None, 1)
        .claim("window", until);
    db.written(first).await;
    let fence = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e2")).await.unwrap();
    db.written(Commit::of(fence.decide(Sample::step(), Sample::now()).unwrap(), &db.sample.cx())).await;
    let commit = Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())
        .unchanged(&fence)
        .count("quota", &[("runs", 2)])
        .set_limit("other", "runs", Some(4), 5)
        .claim("window", until);
    let conflicts = db.refused(commit).await;
    let names: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(conflicts.len(), 5, "{names:?}");
    assert!(matches!(conflicts[0], Conflict::Exists(_)) && matches!(conflicts[1], Conflict::Changed(_)));
    assert!(names[2].contains("runs 0/1, 2 more"), "{names:?}");
    assert!(
        matches!(conflicts[3], Conflict::LimitMoved { .. }) && matches!(conflicts[4], Conflict::Claimed(_))
    );
}

async fn kinds_and_tenants_do_not_share_keys(db: Database) {
    for (tenant, environment) in
        [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("a", "b%2Fc"), ("A", "b/c"), ("a", "é")]
    {
        db.written(Commit::of(Sample::slot(tenant, environment), &db.sample.cx())).await;
    }
    for (tenant, environment) in
        [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("a", "b%2Fc"), ("A", "b/c"), ("a", "é")]
    {
        let id = Sample::slot_id(tenant, environment);
        let read = db.store().need::<EnvironmentSlot>(&id).await.unwrap();
        assert_eq!((read.tenant.as_str(), read.environment.as_str()), (tenant, environment));
    }
}

async fn one_of_many_writers_wins(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let read = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap();
    let writers = (0..16).map(|_| {
        let (db, change) = (db.clone(), read.decide(Sample::step(), Sample::now()).unwrap());
        tokio::spawn(async move { db.commit(Commit::of(change, &db.sample.cx())).await })
    });
    let mut wins = 0;
    for writer in futures::future::join_all(writers).await {
        wins += u32::from(writer.unwrap() == ports::Committed::Yes);
    }
    assert_eq!(wins, 1);
    let read = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap();
    assert_eq!((read.version(), read.epoch), (Version(2), 2));
}
