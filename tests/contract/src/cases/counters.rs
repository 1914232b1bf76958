//! Counters hold what is free, in items of their own (Rule 4).

use domain::EnvironmentSlot;
use ports::Commit;
use ports::commit::{Committed, Conflict};
use ports::rows::CounterRead;

use super::Database;
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    what_is_free_is_taken_and_given_back,
    a_limit_that_fails_is_named_with_its_numbers,
    every_limit_that_fails_is_named,
    a_counter_that_is_not_there_grants_nothing,
    free_may_go_below_zero_when_a_limit_is_lowered,
    giving_back_is_never_refused,
    a_limit_moves_only_from_what_it_was_taken_for,
    a_put_of_an_aggregate_leaves_counters_alone,
    many_writers_on_one_counter_count_exactly,
    many_writers_on_three_counters_count_exactly,
    many_takers_and_givers_end_where_they_began,
}

impl Database {
    /// A commit with a row of its own that nobody else writes.
    fn beside(&self, number: u32) -> Commit {
        Commit::of(Sample::slot("acme", &format!("beside-{number}")), &self.sample.cx())
    }

    async fn counter(&self, counter: &str) -> Vec<(String, i64, i64)> {
        let read = self.store().counter(counter).await.unwrap();
        read.into_iter().map(|CounterRead { name, free, limit }| (name, free, limit)).collect()
    }
}

fn limit(counter: &str, name: &str, used: i64, limit: i64, by: i64) -> Conflict {
    Conflict::Limit { counter: counter.to_owned(), name: name.to_owned(), used, limit, by }
}

async fn what_is_free_is_taken_and_given_back(db: Database) {
    db.written(db.beside(0).set_limit("pool", "cpu", None, 4000)).await;
    db.written(db.beside(1).count("pool", &[("cpu", 4000)])).await;
    assert_eq!(db.counter("pool").await, [("cpu".to_owned(), 0, 4000)]);
    db.written(db.beside(2).count("pool", &[("cpu", -1500)])).await;
    assert_eq!(db.counter("pool").await, [("cpu".to_owned(), 1500, 4000)]);
    assert!(db.counter("nothing").await.is_empty());
}

async fn a_limit_that_fails_is_named_with_its_numbers(db: Database) {
    db.written(db.beside(0).set_limit("pool", "cpu", None, 10)).await;
    db.written(db.beside(1).count("pool", &[("cpu", 7)])).await;
    let conflicts = db.refused(db.beside(2).count("pool", &[("cpu", 4)])).await;
    assert_eq!(conflicts, [limit("pool", "cpu", 7, 10, 4)]);
    assert_eq!(conflicts[0].to_string(), "pool: cpu 7/10, 4 more asked");
    db.written(db.beside(3).count("pool", &[("cpu", 3)])).await;
}

async fn every_limit_that_fails_is_named(db: Database) {
    let limits = [("pool", "cpu", 10), ("quota", "runs", 1), ("tenant", "minutes", 60)];
    for (n, (counter, name, to)) in (0..).zip(limits) {
        db.written(db.beside(n).set_limit(counter, name, None, to)).await;
    }
    let all = db
        .beside(9)
        .count("pool", &[("cpu", 11)])
        .count("quota", &[("runs", 1)])
        .count("tenant", &[("minutes", 61)]);
    let conflicts = db.refused(all).await;
    assert_eq!(conflicts, [limit("pool", "cpu", 0, 10, 11), limit("tenant", "minutes", 0, 60, 61)]);
    assert_eq!(db.counter("quota").await, [("runs".to_owned(), 1, 1)]);
}

async fn a_counter_that_is_not_there_grants_nothing(db: Database) {
    let conflicts = db.refused(db.beside(0).count("pool", &[("cpu", 1)])).await;
    assert_eq!(conflicts, [limit("pool", "cpu", 0, 0, 1)]);
    db.written(db.beside(1).set_limit("pool", "cpu", None, 1)).await;
    let conflicts = db.refused(db.beside(2).count("pool", &[("cpu", 1), ("memory", 1)])).await;
    assert_eq!(conflicts, [limit("pool", "memory", 0, 0, 1)]);
}

async fn free_may_go_below_zero_when_a_limit_is_lowered(db: Database) {
    db.written(db.beside(0).set_limit("pool", "cpu", None, 10)).await;
    db.written(db.beside(1).count("pool", &[("cpu", 8)])).await;
    db.written(db.beside(2).set_limit("pool", "cpu", Some(10), 5)).await;
    assert_eq!(db.counter("pool").await, [("cpu".to_owned(), -3, 5)]);
    let conflicts = db.refused(db.beside(3).count("pool", &[("cpu", 1)])).await;
    assert_eq!(conflicts, [limit("pool", "cpu", 8, 5, 1)]);
    db.written(db.beside(4).set_limit("pool", "cpu", Some(5), 9)).await;
    assert_eq!(db.counter("pool").await, [("cpu".to_owned(), 1, 9)]);
}

async fn giving_back_is_never_refused(db: Database) {
    db.written(db.beside(0).set_limit("pool", "cpu", None, 10)).await;
    db.written(db.beside(1).count("pool", &[("cpu", 8)])).await;
    db.written(db.beside(2).set_limit("pool", "cpu", Some(10), 0)).await;
    for n in 3..11 {
        db.written(db.beside(n).count("pool", &[("cpu", -1)])).await;
    }
    assert_eq!(db.counter("pool").await, [("cpu".to_owned(), 0, 0)]);
}

async fn a_limit_moves_only_from_what_it_was_taken_for(db: Database) {
    let moved = |name: &str| Conflict::LimitMoved { counter: "pool".to_owned(), name: name.to_owned() };
    assert_eq!(db.refused(db.beside(0).set_limit("pool", "cpu", Some(1), 2)).await, [moved("cpu")]);
    db.written(db.beside(1).set_limit("pool", "cpu", None, 2)).await;
    assert_eq!(db.refused(db.beside(2).set_limit("pool", "cpu", None, 3)).await, [moved("cpu")]);
    assert_eq!(db.refused(db.beside(3).set_limit("pool", "cpu", Some(3), 4)).await, [moved("cpu")]);
    assert_eq!(db.counter("pool").await, [("cpu".to_owned(), 2, 2)]);
}

async fn a_put_of_an_aggregate_leaves_counters_alone(db: Database) {
    db.written(db.beside(0).set_limit("EnvironmentSlots/acme/beside-0", "cpu", None, 2)).await;
    let slot = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "beside-0")).await.unwrap();
    db.written(Commit::of(slot.decide(Sample::step(), Sample::now()).unwrap(), &db.sample.cx())).await;
    assert_eq!(db.counter("EnvironmentSlots/acme/beside-0").await, [("cpu".to_owned(), 2, 2)]);
}

async fn parallel(db: &Database, writers: u32, commit: fn(&Database, u32) -> Commit) -> Vec<Committed> {
    let writers = (0..writers).map(|n| {
        let db = db.clone();
        tokio::spawn(async move { db.commit(commit(&db, n)).await })
    });
    futures::future::join_all(writers).await.into_iter().map(Result::unwrap).collect()
}

async fn many_writers_on_one_counter_count_exactly(db: Database) {
    db.written(db.beside(100).set_limit("pool", "cpu", None, 20)).await;
    let answers = parallel(&db, 32, |db, n| db.beside(n).count("pool", &[("cpu", 1)])).await;
    let granted = answers.iter().filter(|a| **a == Committed::Yes).count();
    assert_eq!((granted, db.counter("pool").await), (20, vec![("cpu".to_owned(), 0, 20)]));
    for answer in answers {
        if let Committed::Conflict(why) = answer {
            assert_eq!(why, [limit("pool", "cpu", 20, 20, 1)]);
        }
    }
}

async fn many_writers_on_three_counters_count_exactly(db: Database) {
    for (n, (counter, to)) in (100..).zip([("pool", 40), ("quota", 10), ("tenant", 12)]) {
        db.written(db.beside(n).set_limit(counter, "runs", None, to)).await;
    }
    let all = |db: &Database, n| {
        let one: &[(&str, i64)] = &[("runs", 1)];
        db.beside(n).count("pool", one).count("quota", one).count("tenant", one)
    };
    let answers = parallel(&db, 32, all).await;
    let granted = answers.iter().filter(|a| **a == Committed::Yes).count();
    assert_eq!(granted, 10);
    for (counter, free, to) in [("pool", 30, 40), ("quota", 0, 10), ("tenant", 2, 12)] {
        assert_eq!(db.counter(counter).await, [("runs".to_owned(), free, to)], "{counter}");
    }
    for answer in answers {
        if let Committed::Conflict(why) = answer {
            assert_eq!(why, [limit("quota", "runs", 10, 10, 1)]);
        }
    }
}

async fn many_takers_and_givers_end_where_they_began(db: Database) {
    db.written(db.beside(100).set_limit("pool", "cpu", None, 32)).await;
    let round = |db: &Database, n: u32| {
        db.beside(n).count("pool", &[("cpu", if n.is_multiple_of(2) { 1 } else { -1 })])
    };
    db.written(db.beside(101).count("pool", &[("cpu", 16)])).await;
    assert!(parallel(&db, 32, round).await.iter().all(|a| *a == Committed::Yes));
    assert_eq!(db.counter("pool").await, [("cpu".to_owned(), 16, 32)]);
}
