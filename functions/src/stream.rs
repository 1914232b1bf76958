//! The outbox: letters ride on the items, and the tables' streams bring them here. A bad one is put aside and the
//! others go on; what can't leave now is reported, and comes again from there (Rule 7).

use aws::{SqsQueue, StreamRecord, letters_of};
use aws_lambda_events::dynamodb::EventRecord;
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use ports::commit::{Letter, LetterBody};
use ports::queue::{Message, Queue};
use ports::{Bus, PortError};
use serde_json::Value;

use crate::metrics;

/// Where letters go.
pub struct Outbox<'a> {
    /// Events.
    pub bus: &'a dyn Bus,
    /// Messages, and what is put aside.
    pub queue: &'a SqsQueue,
}

/// The queue whose dead letters are those that can't leave.
pub const NAME: &str = "OutboxRelay";

/// A letter, and the record that brought it.
struct Carried {
    record: usize,
    letter: Letter,
}

impl Outbox<'_> {
    /// Sends what a batch of records carries.
    pub async fn forward(&self, records: &[EventRecord]) -> DynamoDbEventResponse {
        let mut carried = vec![];
        let mut first_failed: Option<usize> = None;
        for (place, record) in records.iter().enumerate() {
            match letters_of(&told(record)) {
                Ok(letters) => {
                    carried.extend(letters.into_iter().map(|letter| Carried { record: place, letter }))
                }
                Err(e) => {
                    if self.park(&raw(record), &e.chain()).await.is_err() {
                        first_failed = first_failed.or(Some(place));
                    }
                }
            }
        }
        let failed = self.send(&carried).await;
        first_failed = first_failed.into_iter().chain(failed).min();
        let mut response = DynamoDbEventResponse::default();
        if let Some(record) = first_failed.and_then(|place| records.get(place)) {
            let mut failure = DynamoDbBatchItemFailure::default();
            failure.item_identifier = record.change.sequence_number.clone();
            response.batch_item_failures.push(failure);
        }
        response
    }

    /// Events in batches, then messages in batches, each in their order; the first record whose letters couldn't leave.
    async fn send(&self, carried: &[Carried]) -> Option<usize> {
        let mut failed = None;
        let mut events = vec![];
        let mut messages = vec![];
        for one in carried {
            if let LetterBody::Event(envelope) = &one.letter.body {
                events.push((one, &**envelope));
            }
            messages.extend(Message::of(&one.letter).map(|message| (one, message)));
        }
        let envelopes: Vec<_> = events.iter().map(|(_, e)| *e).collect();
        for ((one, envelope), sent) in events.iter().zip(self.bus.publish_all(&envelopes).await) {
            if sent.is_ok() {
                metrics::told(&envelope.topic);
            }
            let body = || serde_json::to_value(envelope).unwrap_or_default();
            failed = self.came(one.record, failed, sent, body).await;
        }
        let all: Vec<_> = messages.iter().map(|(_, m)| m).collect();
        for ((one, message), sent) in messages.iter().zip(self.queue.send_all(&all).await) {
            let body = || serde_json::from_slice(&message.body).unwrap_or_default();
            failed = self.came(one.record, failed, sent, body).await;
        }
        failed
    }

    async fn came(
        &self,
        record: usize,
        failed: Option<usize>,
        sent: Result<(), PortError>,
        body: impl Fn() -> Value,
    ) -> Option<usize> {
        let again = match sent {
            Ok(()) => false,
            Err(e) if e.is_temporary() => {
                tracing::warn!(error = %e.chain(), "a letter can't leave now; it is sent again");
                true
            }
            Err(e) => self.park(&body(), &e.chain()).await.is_err(),
        };
        if again { Some(failed.map_or(record, |f| f.min(record))) } else { failed }
    }

    async fn park(&self, body: &Value, reason: &str) -> Result<(), PortError> {
        tracing::error!(reason, "a letter can't leave and is put aside");
        let parked = self.queue.put_aside(NAME, &body.to_string(), reason).await;
        if let Err(e) = &parked {
            tracing::error!(error = %e.chain(), "and it can't be put aside; its record comes again");
        }
        parked
    }
}

/// An attribute as the stream writes it: `{"S": "..."}`.
fn text(image: &serde_json::Value, name: &str) -> Option<String> {
    image.get(name)?.get("S")?.as_str().map(str::to_owned)
}

fn told(record: &EventRecord) -> StreamRecord {
    let change = raw(record);
    let (new, old) = (change.get("NewImage"), change.get("OldImage"));
    StreamRecord {
        commit: new.and_then(|i| text(i, "commit")),
        commit_before: old.and_then(|i| text(i, "commit")),
        letters: new.and_then(|i| text(i, "letters")),
    }
}

fn raw(record: &EventRecord) -> Value {
    serde_json::to_value(&record.change).unwrap_or_default()
}
