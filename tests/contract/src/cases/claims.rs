//! Claims: a name is taken until a time.

use chrono::TimeDelta;
use ports::Commit;
use ports::commit::{Committed, Conflict, Op};

use super::Database;
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    a_claimed_name_is_refused_until_its_time,
    a_claim_past_its_time_counts_as_absent,
    a_claim_goes_with_its_commit,
    one_of_many_claims_wins,
}

async fn a_claimed_name_is_refused_until_its_time(db: Database) {
    let until = Sample::now() + TimeDelta::hours(1);
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx()).claim("event/é'\"", until)).await;
    let other = Commit::of(Sample::slot("acme", "e2"), &db.sample.cx()).claim("event/é'\"", until);
    assert_eq!(db.refused(other).await, [Conflict::Claimed("event/é'\"".to_owned())]);
    db.written(Commit::of(Sample::slot("acme", "e2"), &db.sample.cx()).claim("event/e", until)).await;
}

async fn a_claim_past_its_time_counts_as_absent(db: Database) {
    let until = Sample::now() + TimeDelta::hours(1);
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx()).claim("window", until)).await;
    let at = |environment: &str, now| {
        let mut cx = db.sample.cx();
        cx.now = now;
        Commit::of(Sample::slot("acme", environment), &cx).claim("window", now + TimeDelta::hours(1))
    };
    let early = at("e2", until - TimeDelta::milliseconds(1));
    assert_eq!(db.refused(early).await.len(), 1);
    db.written(at("e2", until)).await;
    // It is a claim again.
    assert_eq!(db.refused(at("e3", until + TimeDelta::minutes(1))).await.len(), 1);
}

async fn a_claim_goes_with_its_commit(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let until = Sample::now() + TimeDelta::hours(1);
    let fails = Commit::of(Sample::slot("acme", "e1"), &db.sample.cx()).claim("window", until);
    assert_eq!(db.refused(fails).await.len(), 1);
    db.written(Commit::of(Sample::slot("acme", "e2"), &db.sample.cx()).claim("window", until)).await;
}

async fn one_of_many_claims_wins(db: Database) {
    let until = Sample::now() + TimeDelta::hours(1);
    let claimers = (0..16).map(|n| {
        let db = db.clone();
        tokio::spawn(async move {
            let slot = Sample::slot("acme", &format!("e{n}"));
            let commit = Commit::of(slot, &db.sample.cx()).claim("window", until);
            assert!(matches!(commit.ops[1], Op::Claim { .. }));
            db.commit(commit).await
        })
    });
    let mut wins = 0;
    for claimer in futures::future::join_all(claimers).await {
        match claimer.unwrap() {
            Committed::Yes => wins += 1,
            Committed::Conflict(why) => assert_eq!(why, [Conflict::Claimed("window".to_owned())]),
        }
    }
    assert_eq!(wins, 1);
}
