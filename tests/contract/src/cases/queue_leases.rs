//! Leases: a message that was received belongs to its receiver until its lease is lost.

use std::time::Duration;

use super::queue_groups::{MINUTE, Subject};

crate::case::table! {
    /// Each with a fresh queue.
    Subject:
    a_lease_that_ran_out_is_delivered_again,
    an_extended_lease_holds_for_longer,
    whoever_lost_the_lease_changes_nothing,
    what_is_done_stays_done,
    a_retry_counts_a_failure_only_when_told,
    failures_outlive_a_lost_lease,
    a_buried_message_is_listed_with_its_reason,
    a_redriven_message_begins_anew,
    what_is_not_dead_is_not_redriven,
    a_lost_answer_of_done_is_done,
}

async fn a_lease_that_ran_out_is_delivered_again(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    let first = subject.next().await;
    // Some clocks run on by themselves.
    let rest = Duration::from_secs(10);
    (subject.pass)(MINUTE - rest);
    assert!(subject.receive().await.is_none());
    (subject.pass)(rest);
    let second = subject.next().await;
    assert_eq!((second.message.id.as_u128(), second.deliveries, second.failures), (1, 2, 0));
    assert_ne!(first.lease, second.lease);
}

async fn an_extended_lease_holds_for_longer(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    let delivery = subject.next().await;
    for _ in 0..5 {
        (subject.pass)(Duration::from_secs(50));
        assert!(subject.queue.extend(&delivery, MINUTE).await.unwrap());
        assert!(subject.receive().await.is_none());
    }
    assert!(subject.done(&delivery).await);
}

async fn whoever_lost_the_lease_changes_nothing(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    let slow = subject.next().await;
    (subject.pass)(MINUTE);
    let quick = subject.next().await;
    let queue = &subject.queue;
    assert!(!queue.extend(&slow, MINUTE * 100).await.unwrap());
    assert!(!queue.done(&slow).await.unwrap());
    assert!(!queue.retry(&slow, MINUTE * 100, true).await.unwrap());
    assert!(!queue.bury(&slow, "slow").await.unwrap());
    assert!(queue.dead(10).await.unwrap().is_empty());
    assert!(queue.done(&quick).await.unwrap());
}

async fn what_is_done_stays_done(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    let delivery = subject.next().await;
    let queue = &subject.queue;
    assert!(queue.done(&delivery).await.unwrap());
    assert!(!queue.done(&delivery).await.unwrap());
    assert!(!queue.extend(&delivery, MINUTE).await.unwrap());
    assert!(!queue.retry(&delivery, Duration::ZERO, true).await.unwrap());
    assert!(!queue.bury(&delivery, "late").await.unwrap());
    (subject.pass)(MINUTE * 100);
    assert!(subject.receive().await.is_none());
}

async fn a_retry_counts_a_failure_only_when_told(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    for (deliveries, failures, failed) in
        [(1, 0, false), (2, 0, true), (3, 1, true), (4, 2, false), (5, 2, false)]
    {
        let delivery = subject.next().await;
        assert_eq!((delivery.deliveries, delivery.failures), (deliveries, failures));
        assert!(subject.queue.retry(&delivery, Duration::ZERO, failed).await.unwrap());
    }
}

// Rule 10: attempts are counted in the store, not by whoever handles them.
async fn failures_outlive_a_lost_lease(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    assert!(subject.queue.retry(&subject.next().await, Duration::ZERO, true).await.unwrap());
    subject.next().await;
    (subject.pass)(MINUTE);
    let again = subject.next().await;
    assert_eq!((again.deliveries, again.failures), (3, 1));
}

async fn a_buried_message_is_listed_with_its_reason(subject: Subject) {
    subject.now(&[(1, "a"), (2, "b"), (3, "c")]).await;
    for reason in ["first é", "second"] {
        assert!(subject.queue.bury(&subject.next().await, reason).await.unwrap());
    }
    let dead = subject.queue.dead(10).await.unwrap();
    let told: Vec<_> = dead.iter().map(|d| (d.id.as_u128(), d.group.as_str(), d.reason.as_str())).collect();
    assert_eq!(told, [(1, "a", "first é"), (2, "b", "second")]);
    assert_eq!((dead[0].queue.as_str(), dead[0].body.as_str()), ("Planner", "{\"n\":1}"));
    assert_eq!(subject.queue.dead(1).await.unwrap().len(), 1);
    (subject.pass)(MINUTE * 100);
    assert_eq!(subject.all().await, [3]);
}

async fn a_redriven_message_begins_anew(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    assert!(subject.queue.retry(&subject.next().await, Duration::ZERO, true).await.unwrap());
    let delivery = subject.next().await;
    assert!(subject.queue.bury(&delivery, "why").await.unwrap());
    assert!(subject.queue.redrive(delivery.message.id).await.unwrap());
    let again = subject.next().await;
    assert_eq!((again.message, again.deliveries, again.failures), (delivery.message, 1, 0));
    assert!(subject.queue.dead(10).await.unwrap().is_empty());
}

async fn what_is_not_dead_is_not_redriven(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    assert!(!subject.queue.redrive(uuid::Uuid::from_u128(1)).await.unwrap());
    assert!(!subject.queue.redrive(uuid::Uuid::from_u128(9)).await.unwrap());
    let delivery = subject.next().await;
    assert!(subject.done(&delivery).await);
    assert!(!subject.queue.redrive(uuid::Uuid::from_u128(1)).await.unwrap());
}

async fn a_lost_answer_of_done_is_done(subject: Subject) {
    use std::sync::Arc;

    use crate::faults::{Fault, Faults, FaultyQueue};
    use ports::Queue;

    subject.now(&[(1, "g"), (2, "g")]).await;
    let delivery = subject.next().await;
    let faulty = FaultyQueue::new(Arc::clone(&subject.queue), Faults::nth(1, Fault::AnswerLost));
    assert!(faulty.done(&delivery).await.is_err());
    // It was done, and the message's lease went with it.
    assert!(!faulty.done(&delivery).await.unwrap());
    assert_eq!(subject.all().await, [2]);
}
