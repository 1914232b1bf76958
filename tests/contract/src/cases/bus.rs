//! The bus: the same event twice is one, and rules copy it to queues.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use events::{Envelope, Event, EventId, SandboxReleased, SpecificationDeclared};
use futures::future::BoxFuture;
use ports::{Bus, Queue};
use uuid::Uuid;

use crate::sample::Sample;

/// A fresh bus. Its rules: SpecificationDeclared to the queues `TrackDeclared` and `Audit`, grouped by subject.
#[derive(Clone)]
pub struct Subject {
    /// The port.
    pub bus: Arc<dyn Bus>,
    /// Where the copies go.
    pub queue: Arc<dyn Queue>,
    /// Every event that arrived, in order.
    pub arrived: Arc<dyn Fn() -> BoxFuture<'static, Vec<Envelope>> + Send + Sync>,
}

crate::case::table! {
    /// Each with a fresh bus that knows what it has had.
    Subject:
    an_event_arrives_as_it_was_sent,
    the_same_event_twice_is_one,
    rules_copy_an_event_to_each_queue_once,
    an_event_without_a_rule_is_kept_and_copied_nowhere,
    one_id_of_two_sources_is_two_events,
    many_publishers_of_one_event_are_one,
}

crate::case::table! {
    /// Each with a fresh bus that forgets what it has had: whoever reads from it knows.
    at_least_once
    Subject:
    an_event_arrives_as_it_was_sent,
    many_events_arrive_each,
    rules_copy_an_event_to_each_queue,
    an_event_without_a_rule_is_kept_and_copied_nowhere,
    one_id_of_two_sources_is_two_events,
}

fn event(number: u128) -> Envelope {
    let change = Sample::specification("acme", "e1");
    let Event::SpecificationDeclared(data) = change.events()[0].clone() else { panic!("another event") };
    let data =
        SpecificationDeclared { specification_id: events::SpecificationId(Uuid::from_u128(number)), ..data };
    Envelope::of(
        &data.into(),
        EventId(Uuid::from_u128(number)),
        Sample::now(),
        Some("work".to_owned()),
        None,
        None,
    )
    .unwrap()
}

async fn publish(subject: &Subject, envelope: &Envelope) {
    for _ in 0..20 {
        match subject.bus.publish(envelope).await {
            Ok(()) => return,
            Err(e) if e.is_temporary() => {}
            Err(e) => panic!("{e}"),
        }
    }
    panic!("it was never published");
}

async fn copies(subject: &Subject, queue: &str) -> Vec<Envelope> {
    let mut copies = vec![];
    while let Some(delivery) = subject.queue.receive(queue, Duration::from_secs(60)).await.unwrap() {
        assert!(subject.queue.done(&delivery).await.unwrap());
        copies.push(serde_json::from_slice(&delivery.message.body).unwrap());
    }
    copies
}

async fn an_event_arrives_as_it_was_sent(subject: Subject) {
    let sent = event(1);
    publish(&subject, &sent).await;
    assert_eq!((subject.arrived)().await, [sent]);
}

async fn the_same_event_twice_is_one(subject: Subject) {
    for _ in 0..3 {
        publish(&subject, &event(1)).await;
    }
    assert_eq!((subject.arrived)().await.len(), 1);
    assert_eq!(copies(&subject, "Audit").await.len(), 1);
    // Also after its copy was handled.
    publish(&subject, &event(1)).await;
    assert!(copies(&subject, "Audit").await.is_empty());
}

async fn many_events_arrive_each(subject: Subject) {
    let events: Vec<Envelope> = (1..=25).map(event).collect();
    let mut left: Vec<&Envelope> = events.iter().collect();
    for _ in 0..20 {
        let sent = subject.bus.publish_all(&left).await;
        assert_eq!(sent.len(), left.len());
        left = left.into_iter().zip(sent).filter_map(|(e, sent)| sent.is_err().then_some(e)).collect();
        if left.is_empty() {
            break;
        }
    }
    let ids = |all: &[Envelope]| all.iter().map(|e| e.id.clone()).collect::<BTreeSet<_>>();
    assert_eq!(ids(&(subject.arrived)().await), ids(&events));
}

async fn rules_copy_an_event_to_each_queue(subject: Subject) {
    for number in [1, 2, 3] {
        publish(&subject, &event(number)).await;
    }
    for queue in ["TrackDeclared", "Audit"] {
        let got = Mutex::new(vec![]);
        super::until("the copies", || async {
            let new = copies(&subject, queue).await;
            let mut got = got.lock().unwrap();
            got.extend(new);
            // A copy may come twice, and in another order.
            got.sort_by(|a: &Envelope, b| a.id.cmp(&b.id));
            got.dedup();
            got.len() >= 3
        })
        .await;
        assert_eq!(got.into_inner().unwrap(), [event(1), event(2), event(3)], "{queue}");
    }
}

async fn rules_copy_an_event_to_each_queue_once(subject: Subject) {
    for number in [1, 2, 3, 2] {
        publish(&subject, &event(number)).await;
    }
    for queue in ["TrackDeclared", "Audit"] {
        assert_eq!(copies(&subject, queue).await, [event(1), event(2), event(3)], "{queue}");
    }
}

async fn an_event_without_a_rule_is_kept_and_copied_nowhere(subject: Subject) {
    let data = SandboxReleased {
        sandbox_id: events::SandboxId::new("s").unwrap(),
        tenant_id: Sample::tenant("acme"),
        released_at: Sample::now(),
    };
    let other = Envelope {
        topic: "tools.sandboxes.v1.sandbox-released".to_owned(),
        data: serde_json::to_value(data).unwrap(),
        ..event(1)
    };
    publish(&subject, &other).await;
    assert_eq!((subject.arrived)().await.len(), 1);
    assert!(copies(&subject, "Audit").await.is_empty() && copies(&subject, "TrackDeclared").await.is_empty());
}

async fn one_id_of_two_sources_is_two_events(subject: Subject) {
    publish(&subject, &event(1)).await;
    publish(&subject, &Envelope { source: "/elsewhere".to_owned(), ..event(1) }).await;
    assert_eq!((subject.arrived)().await.len(), 2);
    let found = Mutex::new(0);
    super::until("both copies", || async {
        let new = copies(&subject, "Audit").await.len();
        *found.lock().unwrap() += new;
        *found.lock().unwrap() >= 2
    })
    .await;
    assert_eq!(*found.lock().unwrap(), 2);
}

async fn many_publishers_of_one_event_are_one(subject: Subject) {
    let publishers = (0..16).map(|_| {
        let subject = subject.clone();
        tokio::spawn(async move { publish(&subject, &event(1)).await })
    });
    for publisher in futures::future::join_all(publishers).await {
        publisher.unwrap();
    }
    assert_eq!((subject.arrived)().await.len(), 1);
    assert_eq!(copies(&subject, "TrackDeclared").await.len(), 1);
}
