//! Rule 2: a lost answer is settled by the row's last commit, and never by guessing. These cases bring their own
//! faults over the bare database.

use std::sync::Arc;

use domain::EnvironmentSlot;
use domain::aggregate::Versioned;
use ports::commit::{CommitError, Committed, Conflict};
use ports::{Commit, Rows, Store};

use super::Database;
use crate::faults::{Fault, Faults, FaultyRows};
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    a_write_whose_answer_is_lost_is_written_once,
    a_write_whose_answers_are_lost_twice_is_written_once,
    a_write_whose_answers_are_all_lost_is_still_settled,
    a_refusal_whose_answer_is_lost_is_a_refusal,
    a_contended_resend_is_never_called_a_conflict,
    another_row_of_the_commit_settles_a_contended_resend,
    a_contended_write_is_a_conflict,
    a_throttled_resend_does_not_say_that_nothing_was_written,
    a_throttled_write_says_that_nothing_was_written,
    the_same_commit_twice_is_one,
}

impl Database {
    fn under(&self, faults: Faults) -> (Store, Arc<Faults>) {
        let faults = Arc::new(faults);
        let rows = FaultyRows::new(Arc::clone(&self.bare), Arc::clone(&faults));
        (Store::new(Arc::new(rows)), faults)
    }

    /// Commits that take one of five, on a row of their own.
    fn taking(&self) -> Commit {
        Commit::of(Sample::specification("acme", "e1"), &self.sample.cx()).count("pool", &[("cpu", 1)])
    }

    async fn five(&self) {
        let five =
            Commit::of(Sample::slot("acme", "other"), &self.sample.cx()).set_limit("pool", "cpu", None, 5);
        assert_eq!(Store::new(Arc::clone(&self.bare)).commit(five).await.unwrap(), Committed::Yes);
    }

    async fn taken(&self) -> (i64, usize) {
        let free = self.bare.counter("pool").await.unwrap()[0].free;
        (5 - free, self.letters.pending(10).await.unwrap().len())
    }

    /// A slot that was read, and its next change.
    async fn slot(&self, environment: &str) -> Versioned<EnvironmentSlot> {
        let store = Store::new(Arc::clone(&self.bare));
        let id = Sample::slot_id("acme", environment);
        if store.load::<EnvironmentSlot>(&id).await.unwrap().is_none() {
            let open = Commit::of(Sample::slot("acme", environment), &self.sample.cx());
            assert_eq!(store.commit(open).await.unwrap(), Committed::Yes);
        }
        store.need::<EnvironmentSlot>(&id).await.unwrap()
    }
}

async fn lost(db: Database, answers: u32) {
    db.five().await;
    let (store, faults) = db.under(Faults::first(answers, Fault::AnswerLost));
    assert_eq!(store.commit(db.taking()).await.unwrap(), Committed::Yes);
    assert_eq!(db.taken().await, (1, 1));
    assert!(faults.calls() > 1);
}

async fn a_write_whose_answer_is_lost_is_written_once(db: Database) {
    lost(db, 1).await;
}

async fn a_write_whose_answers_are_lost_twice_is_written_once(db: Database) {
    lost(db, 2).await;
}

async fn a_write_whose_answers_are_all_lost_is_still_settled(db: Database) {
    lost(db, u32::MAX).await;
}

async fn a_refusal_whose_answer_is_lost_is_a_refusal(db: Database) {
    db.five().await;
    let (store, _) = db.under(Faults::first(1, Fault::AnswerLost));
    let greedy = Commit::of(Sample::slot("acme", "e1"), &db.sample.cx()).count("pool", &[("cpu", 6)]);
    let Committed::Conflict(why) = store.commit(greedy).await.unwrap() else { panic!("it was written") };
    assert!(matches!(why[..], [Conflict::Limit { by: 6, .. }]), "{why:?}");
}

/// The answer is lost, then somebody else writes the row, then it is sent again.
fn lost_then_contended(db: &Database) -> Store {
    let rival: Arc<dyn Rows> =
        Arc::new(FaultyRows::new(Arc::clone(&db.bare), Faults::nth(2, Fault::Contended)));
    Store::new(Arc::new(FaultyRows::new(rival, Faults::nth(1, Fault::AnswerLost))))
}

async fn a_contended_resend_is_never_called_a_conflict(db: Database) {
    let slot = db.slot("e1").await;
    let change = slot.decide(Sample::step(), Sample::now()).unwrap();
    let answer = lost_then_contended(&db).commit(Commit::of(change, &db.sample.cx())).await;
    // It was written and written over: "nothing was written" would be a lie.
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
    let now = db.slot("e1").await;
    assert_eq!((now.version().0, now.epoch), (slot.version().0 + 2, 2));
}

async fn another_row_of_the_commit_settles_a_contended_resend(db: Database) {
    let change = db.slot("e1").await.decide(Sample::step(), Sample::now()).unwrap();
    let commit = Commit::of(change, &db.sample.cx()).and(Sample::slot("acme", "e2"));
    assert_eq!(lost_then_contended(&db).commit(commit).await.unwrap(), Committed::Yes);
}

async fn a_contended_write_is_a_conflict(db: Database) {
    let slot = db.slot("e1").await;
    let (store, faults) = db.under(Faults::nth(1, Fault::Contended));
    let change = slot.decide(Sample::step(), Sample::now()).unwrap();
    let answer = store.commit(Commit::of(change, &db.sample.cx())).await.unwrap();
    assert_eq!(answer, Committed::Conflict(vec![Conflict::Changed(slot.key())]));
    assert_eq!(faults.calls(), 1, "a conflict isn't sent again");
    let (store, _) = db.under(Faults::nth(1, Fault::Contended));
    let answer = store.commit(Commit::of(Sample::slot("acme", "e2"), &db.sample.cx())).await.unwrap();
    assert!(matches!(answer, Committed::Conflict(_)), "{answer:?}");
}

async fn a_throttled_resend_does_not_say_that_nothing_was_written(db: Database) {
    db.five().await;
    let throttled: Arc<dyn Rows> =
        Arc::new(FaultyRows::new(Arc::clone(&db.bare), Faults::nth(2, Fault::Throttle)));
    let store = Store::new(Arc::new(FaultyRows::new(throttled, Faults::nth(1, Fault::AnswerLost))));
    assert_eq!(store.commit(db.taking()).await.unwrap(), Committed::Yes);
    assert_eq!(db.taken().await, (1, 1));
}

async fn a_throttled_write_says_that_nothing_was_written(db: Database) {
    db.five().await;
    let (store, _) = db.under(Faults::nth(1, Fault::Throttle));
    let answer = store.commit(db.taking()).await;
    assert!(matches!(&answer, Err(CommitError::NotApplied(e)) if e.is_temporary()), "{answer:?}");
    assert_eq!(db.taken().await, (0, 0));
}

async fn the_same_commit_twice_is_one(db: Database) {
    db.five().await;
    let (store, _) = db.under(Faults::every(u32::MAX, Fault::Delay));
    let commit = db.taking();
    for _ in 0..3 {
        assert_eq!(store.commit(commit.clone()).await.unwrap(), Committed::Yes);
    }
    assert_eq!(db.taken().await, (1, 1));
}
