//! Dead letters: looked through, let go again, and what is put among them.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_sqs::types::MessageSystemAttributeName;
use ports::PortError;
use ports::queue::DeadLetter;

use crate::fault::fault;
use crate::sqs_message::{REASON, SqsRecord, attribute};
use crate::sqs_queue::{ASIDE, LOOK, SqsQueue, record};

impl SqsQueue {
    /// Looks through the dead letters of a queue; `each` says whether it has seen enough.
    pub(crate) async fn look_through(
        &self,
        queue: &str,
        mut each: impl FnMut(&SqsRecord, i64) -> bool,
    ) -> Result<Vec<SqsRecord>, PortError> {
        let url = self.queues.dead_url(queue);
        let (mut held, mut seen) = (vec![], BTreeSet::new());
        loop {
            // A short look asks some of the servers alone, and may find nothing where there is something.
            let some = self.receive_from(&url, 10, LOOK, 1).await?;
            if some.is_empty() {
                break;
            }
            let mut over = false;
            for message in some {
                let sent = message.attributes.as_ref();
                let sent = sent.and_then(|a| a.get(&MessageSystemAttributeName::SentTimestamp)?.parse().ok());
                let record = record(message);
                let new = seen.insert(record.message_id.clone());
                over = over || !new || each(&record, sent.unwrap_or_default());
                held.push(record);
            }
            if over {
                break;
            }
        }
        Ok(held)
    }

    /// Dead letters of a queue, `wanted` of them at least if there are as many.
    pub(crate) async fn dead_in(&self, queue: &str, wanted: usize) -> Result<Vec<DeadLetter>, PortError> {
        let mut found: Vec<DeadLetter> = vec![];
        let look =
            self.look_through(queue, |record, sent| {
                let delivery = record.clone().delivery(queue, 0);
                found.push(DeadLetter {
                    id: delivery.message.id,
                    queue: queue.to_owned(),
                    group: delivery.message.group,
                    body: record.body.clone(),
                    reason: record.attributes.get(REASON).cloned().unwrap_or_else(|| {
                        "it was received too often; its function ended each time".to_owned()
                    }),
                    at: chrono::DateTime::from_timestamp_millis(sent).unwrap_or_default(),
                });
                found.len() >= wanted
            });
        let held = look.await?;
        self.let_go(queue, &held).await?;
        Ok(found)
    }

    pub(crate) async fn let_go(&self, queue: &str, held: &[SqsRecord]) -> Result<(), PortError> {
        let url = self.queues.dead_url(queue);
        for record in held {
            self.hide(&url, &record.receipt_handle, Duration::ZERO).await?;
        }
        Ok(())
    }

    /// Puts something aside that was no message yet: among the dead letters of `queue`, with its reason.
    pub async fn put_aside(&self, queue: &str, body: &str, reason: &str) -> Result<(), PortError> {
        let url = self.queues.dead_url(queue);
        let short = shortened(body);
        let body = short.as_deref().unwrap_or(body);
        let reason: String = reason.chars().take(1000).collect();
        self.client
            .send_message()
            .queue_url(&url)
            .message_body(body)
            .message_attributes(REASON, attribute(&reason)?)
            .send()
            .await
            .map_err(|e| fault(&url, e))?;
        Ok(())
    }
}

/// What is put aside for its size would not fit here either: what names it and whose it is does, and its beginning.
fn shortened(body: &str) -> Option<String> {
    if body.len() <= ASIDE {
        return None;
    }
    let whole: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let of = |paths: &[&str]| paths.iter().find_map(|path| whole.pointer(path)).cloned();
    let beginning = body.get(..body.floor_char_boundary(ASIDE / 4)).unwrap_or_default();
    let short = serde_json::json!({
        "tenant": of(&["/tenant", "/tenantid", "/data/tenantId"]),
        "id": of(&["/id", "/run"]),
        "type": of(&["/type"]),
        "subject": of(&["/subject", "/environment"]),
        "beginning": beginning,
    });
    Some(short.to_string())
}
