//! Queues: each message once, one of a group at a time, in order (Rule 10).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use events::TraceParent;
use ports::Queue;
use ports::queue::{Delivery, Message};
use uuid::Uuid;

/// A fresh queue, and a way to let time pass for it.
#[derive(Clone)]
pub struct Subject {
    /// The port.
    pub queue: Arc<dyn Queue>,
    /// Lets time pass.
    pub pass: Arc<dyn Fn(Duration) + Send + Sync>,
}

pub(super) const MINUTE: Duration = Duration::from_secs(60);

crate::case::table! {
    /// Each with a fresh queue.
    Subject:
    a_message_comes_as_it_was_sent,
    an_id_is_sent_once,
    an_id_that_was_handled_is_not_sent_again,
    queues_do_not_see_each_other,
    a_group_comes_in_its_order_one_at_a_time,
    groups_do_not_wait_for_each_other,
    a_message_that_waits_for_its_next_attempt_blocks_its_group,
    a_dead_message_blocks_nobody,
    many_receivers_get_each_message_once,
}

pub(super) fn message(number: u128, group: &str) -> Message {
    Message {
        id: Uuid::from_u128(number),
        queue: "Planner".to_owned(),
        group: group.to_owned(),
        body: format!("{{\"n\":{number}}}").into_bytes(),
        correlation: format!("work-{number}"),
        trace: Some(TraceParent::of_chain(&format!("work-{number}"))),
    }
}

impl Subject {
    /// Tries again as a caller does whose port is unavailable for now.
    pub(super) async fn send(&self, message: &Message) {
        for _ in 0..20 {
            match self.queue.send(message).await {
                Ok(()) => return,
                Err(e) if e.is_temporary() => {}
                Err(e) => panic!("{e}"),
            }
        }
        panic!("it was never sent");
    }

    pub(super) async fn now(&self, numbers: &[(u128, &str)]) {
        for (number, group) in numbers {
            self.send(&message(*number, group)).await;
        }
    }

    pub(super) async fn receive(&self) -> Option<Delivery> {
        for _ in 0..20 {
            match self.queue.receive("Planner", MINUTE).await {
                Ok(received) => return received,
                Err(e) if e.is_temporary() => {}
                Err(e) => panic!("{e}"),
            }
        }
        panic!("it never answered");
    }

    pub(super) async fn done(&self, delivery: &Delivery) -> bool {
        for _ in 0..20 {
            match self.queue.done(delivery).await {
                Ok(done) => return done,
                Err(e) if e.is_temporary() => {}
                Err(e) => panic!("{e}"),
            }
        }
        panic!("it was never settled");
    }

    pub(super) async fn next(&self) -> Delivery {
        self.receive().await.expect("a message should be there")
    }

    /// Receives all that is there now, and handles none of it.
    pub(super) async fn all(&self) -> Vec<u128> {
        let mut numbers = vec![];
        while let Some(delivery) = self.receive().await {
            numbers.push(delivery.message.id.as_u128());
        }
        numbers
    }
}

async fn a_message_comes_as_it_was_sent(subject: Subject) {
    let sent =
        Message { group: "g/é \"'".to_owned(), body: b"{\"a\":\"\\u00e9\"}".to_vec(), ..message(1, "g") };
    subject.send(&sent).await;
    let delivery = subject.next().await;
    assert_eq!(delivery.message, sent);
    assert_eq!((delivery.deliveries, delivery.failures), (1, 0));
    assert!(subject.receive().await.is_none());
}

async fn an_id_is_sent_once(subject: Subject) {
    for _ in 0..3 {
        subject.now(&[(1, "g")]).await;
    }
    assert_eq!(subject.all().await, [1]);
}

async fn an_id_that_was_handled_is_not_sent_again(subject: Subject) {
    subject.now(&[(1, "g")]).await;
    assert!(subject.queue.done(&subject.next().await).await.unwrap());
    subject.now(&[(1, "g"), (2, "g")]).await;
    assert_eq!(subject.all().await, [2]);
}

async fn queues_do_not_see_each_other(subject: Subject) {
    subject.send(&Message { queue: "Applier".to_owned(), ..message(1, "g") }).await;
    assert!(subject.receive().await.is_none());
    subject.now(&[(2, "g")]).await;
    assert_eq!(subject.all().await, [2]);
    assert!(subject.queue.receive("Applier", MINUTE).await.unwrap().is_some());
}

async fn a_group_comes_in_its_order_one_at_a_time(subject: Subject) {
    subject.now(&[(1, "g"), (2, "g"), (3, "g")]).await;
    for number in 1..=3 {
        let delivery = subject.next().await;
        assert_eq!(delivery.message.id.as_u128(), number);
        assert!(subject.receive().await.is_none(), "two of a group at once");
        assert!(subject.done(&delivery).await);
    }
}

async fn groups_do_not_wait_for_each_other(subject: Subject) {
    subject.now(&[(1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "b")]).await;
    assert_eq!(subject.all().await, [1, 3, 4]);
}

async fn a_message_that_waits_for_its_next_attempt_blocks_its_group(subject: Subject) {
    subject.now(&[(1, "a"), (2, "a"), (3, "b")]).await;
    let first = subject.next().await;
    assert!(subject.queue.retry(&first, Duration::from_secs(30), true).await.unwrap());
    assert_eq!(subject.all().await, [3]);
    (subject.pass)(Duration::from_secs(20));
    assert!(subject.receive().await.is_none());
    (subject.pass)(Duration::from_secs(10));
    let again = subject.next().await;
    assert_eq!((again.message.id.as_u128(), again.deliveries, again.failures), (1, 2, 1));
}

async fn a_dead_message_blocks_nobody(subject: Subject) {
    subject.now(&[(1, "a"), (2, "a")]).await;
    let first = subject.next().await;
    assert!(subject.receive().await.is_none());
    assert!(subject.queue.bury(&first, "no such run").await.unwrap());
    assert_eq!(subject.all().await, [2]);
}

async fn many_receivers_get_each_message_once(subject: Subject) {
    for number in 0..40 {
        subject.now(&[(number, &format!("g{}", number % 8))]).await;
    }
    let receivers = (0..8).map(|_| {
        let subject = subject.clone();
        tokio::spawn(async move {
            let mut got = vec![];
            // Another receiver may hold the last of a group for a moment.
            let mut idle = 0;
            while idle < 50 {
                match subject.receive().await {
                    Some(delivery) => {
                        idle = 0;
                        got.push(delivery.message.id.as_u128());
                        assert_eq!(delivery.deliveries, 1);
                        assert!(subject.done(&delivery).await);
                    }
                    None => idle += 1,
                }
            }
            got
        })
    });
    let got: Vec<u128> =
        futures::future::join_all(receivers).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!((got.len(), got.iter().collect::<BTreeSet<_>>().len()), (40, 40));
}
