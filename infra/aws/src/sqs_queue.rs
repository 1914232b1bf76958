//! Queues on SQS. A worker's queue is first-in-first-out by the worker's group; a handler's is filled by rules of the
//! bus, which know no groups. Failures are counted in a table: SQS counts only how often a message was received.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::{Message as SqsMessage, MessageSystemAttributeName, SendMessageBatchRequestEntry};
use ports::queue::{DeadLetter, Delivery, Message, Queue};
use ports::{Clock, PortError};
use uuid::Uuid;

use crate::fault::{fault, plain};
use crate::sqs_message::{REASON, SqsRecord, attribute, attributes, group_id, x_ray};

/// Which queues there are, and where.
#[derive(Debug, Clone)]
pub struct SqsQueues {
    /// What a queue's URL begins with, up to its name: `https://sqs.eu-central-1.amazonaws.com/123456789012/stack-`.
    pub url_prefix: String,
    /// Workers' queues.
    pub fifo: Vec<String>,
    /// Handlers' queues.
    pub standard: Vec<String>,
    /// Those of them that nobody reads: they have dead letters alone.
    pub unread: Vec<String>,
}

impl SqsQueues {
    fn url_of(&self, name: &str, queue: &str) -> String {
        let suffix = if self.is_fifo(queue) { ".fifo" } else { "" };
        format!("{}{name}{suffix}", self.url_prefix)
    }
    /// A queue's URL.
    pub fn url(&self, queue: &str) -> String {
        self.url_of(queue, queue)
    }
    /// The URL of its dead letters.
    pub fn dead_url(&self, queue: &str) -> String {
        self.url_of(&format!("{queue}-dead"), queue)
    }
    fn is_fifo(&self, queue: &str) -> bool {
        self.fifo.iter().any(|f| f == queue)
    }
    fn known(&self, queue: &str) -> Result<(), PortError> {
        if self.is_fifo(queue) || self.standard.iter().any(|s| s == queue) {
            return Ok(());
        }
        Err(PortError::broken(format!("there is no queue {queue:?}"), "a newer version sent to it: upgrade"))
    }
}

/// The queues of an account.
#[derive(Clone)]
pub struct SqsQueue {
    /// SQS.
    pub client: aws_sdk_sqs::Client,
    /// Where failures are counted.
    pub counts: aws_sdk_dynamodb::Client,
    /// The table for that: key `id`, time to live `ttl`.
    pub counts_table: String,
    /// Which there are.
    pub queues: SqsQueues,
    /// When counts may go.
    pub clock: Arc<dyn Clock>,
}

/// How long a count is kept: messages live for 14 days at most.
const COUNTS_KEPT: i64 = 15 * 24 * 3600;
/// How long dead letters are held while they are looked through.
pub(crate) const LOOK: i32 = 20;
/// At most so many messages in one call.
const BATCH: usize = 10;
/// At most so many bytes of bodies in one call: far below what SQS takes.
const BATCH_BYTES: usize = 200_000;
/// What a message's attributes add, at most.
const ATTRIBUTES: usize = 1024;
/// At most so many bytes of what is put aside.
pub(crate) const ASIDE: usize = 200_000;

fn body(message: &Message) -> Result<&str, PortError> {
    std::str::from_utf8(&message.body)
        .map_err(|e| PortError::broken_by("a message's body is no text", "report this", e))
}

pub(crate) fn record(message: SqsMessage) -> SqsRecord {
    let system = |name: MessageSystemAttributeName| {
        message.attributes.as_ref().and_then(|all| all.get(&name)).cloned()
    };
    let receive_count = system(MessageSystemAttributeName::ApproximateReceiveCount);
    let group = system(MessageSystemAttributeName::MessageGroupId);
    SqsRecord {
        receive_count: receive_count.and_then(|n| n.parse().ok()).unwrap_or(1),
        group,
        message_id: message.message_id.unwrap_or_default(),
        receipt_handle: message.receipt_handle.unwrap_or_default(),
        body: message.body.unwrap_or_default(),
        attributes: message
            .message_attributes
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.string_value?)))
            .collect(),
    }
}

/// Whether SQS says that a receipt no longer holds: somebody else has the message, or it is gone.
fn lease_is_lost(code: Option<&str>) -> bool {
    matches!(
        code.map(plain),
        Some(
            "ReceiptHandleIsInvalid"
                | "MessageNotInflight"
                | "InvalidParameterValue"
                | "InvalidParameterValueException"
                | "InvalidIdFormat"
        )
    )
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(i32::MAX).min(43_200)
}

impl SqsQueue {
    /// How often handling a message has failed.
    pub async fn failures(&self, id: Uuid) -> Result<u32, PortError> {
        let answer = self
            .counts
            .get_item()
            .table_name(&self.counts_table)
            .key("id", AttributeValue::S(id.to_string()))
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| fault(&self.counts_table, e))?;
        let count = answer.item.as_ref().and_then(|i| i.get("failures")?.as_n().ok()?.parse().ok());
        Ok(count.unwrap_or_default())
    }

    /// A record that an event source mapping has received, as a delivery. The first receipt has no failures.
    pub async fn delivery(&self, queue: &str, record: SqsRecord) -> Result<Delivery, PortError> {
        let mut delivery = record.delivery(queue, 0);
        if delivery.deliveries > 1 {
            delivery.failures = self.failures(delivery.message.id).await?;
        }
        Ok(delivery)
    }

    async fn count_failure(&self, id: Uuid) -> Result<(), PortError> {
        let kept = self.clock.now().timestamp() + COUNTS_KEPT;
        self.counts
            .update_item()
            .table_name(&self.counts_table)
            .key("id", AttributeValue::S(id.to_string()))
            .update_expression("ADD failures :one SET #ttl = :ttl")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .expression_attribute_values(":ttl", AttributeValue::N(kept.to_string()))
            .send()
            .await
            .map_err(|e| fault(&self.counts_table, e))?;
        Ok(())
    }

    async fn forget_failures(&self, id: Uuid) -> Result<(), PortError> {
        self.counts
            .delete_item()
            .table_name(&self.counts_table)
            .key("id", AttributeValue::S(id.to_string()))
            .send()
            .await
            .map_err(|e| fault(&self.counts_table, e))?;
        Ok(())
    }

    pub(crate) async fn hide(&self, url: &str, lease: &str, time: Duration) -> Result<bool, PortError> {
        let sent = self
            .client
            .change_message_visibility()
            .queue_url(url)
            .receipt_handle(lease)
            .visibility_timeout(seconds(time))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(true),
            Err(e) if lease_is_lost(e.as_service_error().and_then(|e| e.code())) => Ok(false),
            Err(e) => Err(fault(url, e)),
        }
    }

    async fn delete(&self, url: &str, lease: &str) -> Result<bool, PortError> {
        let sent = self.client.delete_message().queue_url(url).receipt_handle(lease).send().await;
        match sent {
            Ok(_) => Ok(true),
            Err(e) if lease_is_lost(e.as_service_error().and_then(|e| e.code())) => Ok(false),
            Err(e) => Err(fault(url, e)),
        }
    }

    pub(crate) async fn receive_from(
        &self,
        url: &str,
        most: i32,
        hidden: i32,
        wait: i32,
    ) -> Result<Vec<SqsMessage>, PortError> {
        let answer = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(most)
            .visibility_timeout(hidden)
            .wait_time_seconds(wait)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send()
            .await
            .map_err(|e| fault(url, e))?;
        Ok(answer.messages.unwrap_or_default())
    }

    async fn send_as(&self, message: &Message, url: &str, unique: &str) -> Result<(), PortError> {
        let fifo = self.queues.is_fifo(&message.queue);
        self.client
            .send_message()
            .queue_url(url)
            .message_body(body(message)?)
            .set_message_group_id(fifo.then(|| group_id(&message.group)))
            .set_message_deduplication_id(fifo.then(|| unique.to_owned()))
            .set_message_attributes(Some(attributes(message)?.into_iter().collect()))
            .set_message_system_attributes(x_ray(message)?)
            .send()
            .await
            .map_err(|e| fault(url, e))?;
        Ok(())
    }
}

#[async_trait]
impl Queue for SqsQueue {
    async fn send(&self, message: &Message) -> Result<(), PortError> {
        self.queues.known(&message.queue)?;
        self.send_as(message, &self.queues.url(&message.queue), &message.id.to_string()).await
    }

    async fn send_all(&self, messages: &[&Message]) -> Vec<Result<(), PortError>> {
        let mut results: Vec<Result<(), PortError>> = Vec::with_capacity(messages.len());
        let mut rest = messages;
        while let Some(first) = rest.first() {
            // As many as go to the same queue and into one call, in their order.
            let mut bytes = 0;
            let fits = |m: &&&Message| {
                bytes += m.body.len() + m.correlation.len() + ATTRIBUTES;
                m.queue == first.queue && (bytes <= BATCH_BYTES || std::ptr::eq(**m, *first))
            };
            let together = rest.iter().take(BATCH).take_while(fits).count();
            let (now, later) = rest.split_at(together);
            rest = later;
            let sent = if now.len() > 1 { self.send_batch(&first.queue, now).await } else { None };
            match sent {
                Some(sent) => results.extend(sent),
                // Alone, or one of them can't be sent: each says for itself what is wrong with it.
                None => {
                    for message in now {
                        results.push(self.send(message).await);
                    }
                }
            }
        }
        results
    }

    async fn receive(&self, queue: &str, lease: Duration) -> Result<Option<Delivery>, PortError> {
        let url = self.queues.url(queue);
        match self.receive_from(&url, 1, seconds(lease), 0).await?.into_iter().next() {
            None => Ok(None),
            Some(message) => self.delivery(queue, record(message)).await.map(Some),
        }
    }

    async fn extend(&self, delivery: &Delivery, lease: Duration) -> Result<bool, PortError> {
        self.hide(&self.queues.url(&delivery.message.queue), &delivery.lease, lease).await
    }

    async fn done(&self, delivery: &Delivery) -> Result<bool, PortError> {
        self.delete(&self.queues.url(&delivery.message.queue), &delivery.lease).await
    }

    async fn retry(&self, delivery: &Delivery, delay: Duration, failed: bool) -> Result<bool, PortError> {
        if !self.extend(delivery, delay).await? {
            return Ok(false);
        }
        if failed {
            self.count_failure(delivery.message.id).await?;
        }
        Ok(true)
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<bool, PortError> {
        // Whoever lost the message buries nothing.
        if !self.extend(delivery, Duration::from_secs(60)).await? {
            return Ok(false);
        }
        let message = &delivery.message;
        let url = self.queues.dead_url(&message.queue);
        let fifo = self.queues.is_fifo(&message.queue);
        // SQS takes a thousand characters of text as an attribute without complaint, and no empty one.
        let reason: String =
            if reason.is_empty() { "no reason".to_owned() } else { reason.chars().take(1000).collect() };
        // One that was let go again and dies again is another one.
        let unique = format!("{}-{}", message.id, uuid_of(&delivery.lease));
        let mut attributes = attributes(message)?;
        attributes.push((REASON.to_owned(), attribute(&reason)?));
        self.client
            .send_message()
            .queue_url(&url)
            .message_body(body(message)?)
            // Each is a group of its own: none is in another's way when they are looked through.
            .set_message_group_id(fifo.then(|| unique.clone()))
            .set_message_deduplication_id(fifo.then_some(unique))
            .set_message_attributes(Some(attributes.into_iter().collect()))
            .send()
            .await
            .map_err(|e| fault(&url, e))?;
        self.done(delivery).await
    }

    async fn dead(&self, limit: u32) -> Result<Vec<DeadLetter>, PortError> {
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let queues = self.queues.fifo.iter().chain(&self.queues.standard);
        // All at once: each look waits for a second.
        let looks = futures::future::join_all(queues.map(|queue| self.dead_in(queue, wanted))).await;
        let mut dead: Vec<DeadLetter> = vec![];
        for found in looks {
            dead.extend(found?);
        }
        dead.sort_by_key(|d| (d.at, d.id));
        dead.dedup_by_key(|d| d.id);
        dead.truncate(wanted);
        Ok(dead)
    }

    async fn redrive(&self, id: Uuid) -> Result<bool, PortError> {
        for queue in self.queues.fifo.iter().chain(&self.queues.standard) {
            let is_it = |r: &SqsRecord| r.clone().delivery(queue, 0).message.id == id;
            let mut held = self.look_through(queue, |record, _| is_it(record)).await?;
            let place = held.iter().position(is_it);
            let found = place.map(|place| held.remove(place));
            self.let_go(queue, &held).await?;
            let Some(found) = found else { continue };
            if self.queues.unread.contains(queue) {
                self.let_go(queue, std::slice::from_ref(&found)).await?;
                return Err(PortError::broken(
                    format!("dead letter {id} could not leave when it was sent, and nobody reads it again"),
                    "its reason says why: correct that, and send the event again, or let RunWatch wake its run",
                ));
            }
            let lease = found.receipt_handle.clone();
            let message = found.delivery(queue, 0).message;
            self.forget_failures(id).await?;
            // A death later may bring the same message twice, and never loses it.
            let unique = format!("{id}-{}", uuid_of(&lease));
            self.send_as(&message, &self.queues.url(queue), &unique).await?;
            self.delete(&self.queues.dead_url(queue), &lease).await?;
            return Ok(true);
        }
        Ok(false)
    }
}

fn uuid_of(lease: &str) -> Uuid {
    Uuid::new_v5(&domain::deployment_specification::NAMESPACE, lease.as_bytes())
}

impl SqsQueue {
    /// Sends messages of one queue in one call. None: one of them can't be sent, and so none was.
    async fn send_batch(&self, queue: &str, messages: &[&Message]) -> Option<Vec<Result<(), PortError>>> {
        self.queues.known(queue).ok()?;
        let url = self.queues.url(queue);
        let fifo = self.queues.is_fifo(queue);
        let entry = |(place, message): (usize, &&Message)| {
            SendMessageBatchRequestEntry::builder()
                .id(place.to_string())
                .message_body(body(message).ok()?)
                .set_message_group_id(fifo.then(|| group_id(&message.group)))
                .set_message_deduplication_id(fifo.then(|| message.id.to_string()))
                .set_message_attributes(Some(attributes(message).ok()?.into_iter().collect()))
                .set_message_system_attributes(x_ray(message).ok()?)
                .build()
                .ok()
        };
        let entries: Option<Vec<_>> = messages.iter().enumerate().map(entry).collect();
        let sent = self.client.send_message_batch().queue_url(&url).set_entries(Some(entries?)).send().await;
        let answer = match sent.map_err(|e| fault(&url, e)) {
            Ok(answer) => answer,
            Err(e) if e.is_temporary() => {
                let why = e.chain();
                let all = messages.iter().map(|_| Err(PortError::unavailable(&*url, why.clone())));
                return Some(all.collect());
            }
            Err(_) => return None,
        };
        let of = |place: usize| answer.failed.iter().find(|f| f.id == place.to_string());
        let came = |place| match of(place) {
            None => Ok(()),
            Some(failed) => {
                let why = format!("{}: {}", failed.code, failed.message.as_deref().unwrap_or_default());
                Err(match failed.sender_fault {
                    true => PortError::broken(format!("{url} refused a message ({why})"), "see its fields"),
                    false => PortError::unavailable(&*url, why),
                })
            }
        };
        Some((0..messages.len()).map(came).collect())
    }
}
