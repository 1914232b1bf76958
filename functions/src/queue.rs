//! Messages from SQS. Each is settled alone: what is done is deleted by the event source mapping, what has to come
//! again is reported to it, what nobody can handle is put aside with its reason.

use std::sync::Arc;
use std::time::Instant;

use application::settle::{Settled, is_race, settle};
use application::{Consumer, Fault};
use aws::{SqsQueue, SqsRecord, event_of};
use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use chrono::{DateTime, TimeDelta, Utc};
use lambda_runtime::{LambdaEvent, service_fn};
use ports::queue::{Delivery, Queue};
use ports::{Clock, Cx, PortError};

use crate::door::{DoorError, SystemClock, cannot_begin, deadline};
use crate::metrics;
use crate::wiring::Account;

/// The consumers of a function's queues.
pub struct Queues {
    /// The queues.
    pub queue: SqsQueue,
    /// Who reads them.
    pub consumers: Vec<Arc<dyn Consumer>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// How long one more message of a batch may take.
const NEEDED: TimeDelta = TimeDelta::seconds(15);

/// That a message comes again.
pub fn failure(id: String) -> BatchItemFailure {
    let mut failure = BatchItemFailure::default();
    failure.item_identifier = id;
    failure
}

/// What came of a message.
enum Came {
    Done,
    Again,
    Dead,
}

impl Queues {
    /// Handles a batch.
    pub async fn handle(&self, event: SqsEvent, deadline: DateTime<Utc>) -> SqsBatchResponse {
        let mut response = SqsBatchResponse::default();
        let mut handled = 0;
        for message in event.records {
            let id = message.message_id.clone().unwrap_or_default();
            // A batch that is killed midway comes again whole: what there is no time for goes back before.
            if handled > 0 && self.clock.now() + NEEDED > deadline {
                response.batch_item_failures.push(failure(id));
                continue;
            }
            handled += 1;
            let began = Instant::now();
            let queue = self.queue_of(&message);
            let came = match self.one(&queue, message, deadline).await {
                Ok(came) => came,
                Err(e) => {
                    tracing::warn!(queue, message = id, error = %e.chain(), "not settled; it comes again");
                    Came::Again
                }
            };
            let outcome = match came {
                Came::Done => "done",
                Came::Again => "again",
                Came::Dead => "dead",
            };
            metrics::handled(&queue, outcome, began.elapsed());
            if matches!(came, Came::Again) {
                response.batch_item_failures.push(failure(id));
            }
        }
        response
    }

    /// The queue's name in the catalogue, out of its ARN.
    fn queue_of(&self, message: &SqsMessage) -> String {
        let arn = message.event_source_arn.as_deref().unwrap_or_default();
        let name = arn.rsplit(':').next().unwrap_or_default().trim_end_matches(".fifo");
        let known = self.consumers.iter().map(|c| c.row().name).find(|row| name.ends_with(row));
        known.unwrap_or(name).to_owned()
    }

    async fn one(
        &self,
        queue: &str,
        message: SqsMessage,
        deadline: DateTime<Utc>,
    ) -> Result<Came, PortError> {
        let mut delivery = self.queue.delivery(queue, record(message)).await?;
        let Some(consumer) = self.consumers.iter().find(|c| c.row().name == queue) else {
            let why = "this function doesn't read that queue: see its event source mappings";
            return self.put_aside(&delivery, why).await;
        };
        if self.queue.queues.standard.iter().any(|s| s == queue) {
            // A rule of the bus has sent it.
            match event_of(&delivery.message.body) {
                Ok(envelope) => {
                    delivery.message.correlation =
                        envelope.correlationid.clone().unwrap_or_else(|| envelope.id.clone());
                    delivery.message.trace = envelope.trace();
                    delivery.message.body = serde_json::to_vec(&envelope).unwrap_or_default();
                }
                Err(e) => {
                    return self.put_aside(&delivery, &e.chain()).await;
                }
            }
        }
        self.deliver(&**consumer, &delivery, deadline).await
    }

    async fn put_aside(&self, delivery: &Delivery, why: &str) -> Result<Came, PortError> {
        Ok(if self.queue.bury(delivery, why).await? { Came::Dead } else { Came::Again })
    }

    async fn deliver(
        &self,
        consumer: &dyn Consumer,
        delivery: &Delivery,
        deadline: DateTime<Utc>,
    ) -> Result<Came, PortError> {
        let row = consumer.row();
        let mut races = 0;
        let (attempt, fault) = loop {
            let cx = Cx {
                message: delivery.message.id,
                correlation: delivery.message.correlation.clone(),
                trace: delivery.message.trace,
                now: self.clock.now(),
                attempt: delivery.failures + 1,
                deadline,
            };
            match consumer.deliver(&delivery.message.body, &cx).await {
                Ok(report) => {
                    metrics::late(&report);
                    let (correlation, trace) = (&cx.correlation, cx.span().trace_id());
                    tracing::info!(queue = row.name, message = %cx.message, correlation, trace, %report, "done");
                    return Ok(Came::Done);
                }
                Err(Fault::Wait { delay, .. }) if is_race(delay, races) => {
                    races += 1;
                    tokio::time::sleep(delay).await;
                }
                Err(fault) => break (cx.attempt, fault),
            }
        };
        Ok(match settle(row, &self.queue, delivery, attempt, fault).await? {
            Settled::Dead => Came::Dead,
            // Whoever has it meanwhile deletes it: said to be done, it would go with whatever they still do.
            Settled::Again | Settled::Lost => Came::Again,
        })
    }
}

/// A worker's whole door: its one queue, until the function ends.
pub async fn serve(
    account: &Account,
    consumer: Result<Arc<dyn Consumer>, DoorError>,
) -> Result<(), lambda_runtime::Error> {
    let begin = || {
        let consumers = vec![consumer?];
        Ok(Queues { queue: account.queue()?, consumers, clock: Arc::new(SystemClock) })
    };
    let queues = begin().map_err(|e: DoorError| cannot_begin(&e))?;
    let handle = async |event: LambdaEvent<SqsEvent>| {
        Ok::<_, lambda_runtime::Error>(queues.handle(event.payload, deadline(&event.context)).await)
    };
    lambda_runtime::run(service_fn(handle)).await
}

/// A message as the queues know it.
pub fn record(message: SqsMessage) -> SqsRecord {
    let receive_count = message.attributes.get("ApproximateReceiveCount").and_then(|n| n.parse().ok());
    SqsRecord {
        message_id: message.message_id.unwrap_or_default(),
        receipt_handle: message.receipt_handle.unwrap_or_default(),
        body: message.body.unwrap_or_default(),
        receive_count: receive_count.unwrap_or(1),
        group: message.attributes.get("MessageGroupId").cloned(),
        attributes: message
            .message_attributes
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.string_value?)))
            .collect(),
    }
}
