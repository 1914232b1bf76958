//! Messages as SQS carries them: the body is the worker's input, everything else stands in attributes.

use std::collections::BTreeMap;

use domain::Digest;
use ports::queue::{Delivery, Message};
use uuid::Uuid;

/// A message as it was received, by a call or by an event source mapping.
#[derive(Debug, Clone, Default)]
pub struct SqsRecord {
    /// SQS's own id of it.
    pub message_id: String,
    /// Names this receipt of it.
    pub receipt_handle: String,
    /// What was sent.
    pub body: String,
    /// How often it was received.
    pub receive_count: u32,
    /// The group that SQS keeps in order.
    pub group: Option<String>,
    /// Attributes that the sender gave, those that are text.
    pub attributes: BTreeMap<String, String>,
}

pub(crate) const ID: &str = "id";
pub(crate) const GROUP: &str = "group";
pub(crate) const CORRELATION: &str = "correlation";
pub(crate) const TRACE: &str = "traceparent";
pub(crate) const REASON: &str = "reason";

impl SqsRecord {
    /// The delivery of a queue. Without our attributes, as from a rule of the bus, SQS's own id names the message.
    pub fn delivery(self, queue: &str, failures: u32) -> Delivery {
        let attribute = |name: &str| self.attributes.get(name).cloned();
        let id = attribute(ID).and_then(|id| id.parse().ok()).or_else(|| self.message_id.parse().ok());
        let id: Uuid = id.unwrap_or_else(|| {
            Uuid::new_v5(&domain::deployment_specification::NAMESPACE, self.message_id.as_bytes())
        });
        let message = Message {
            id,
            queue: queue.to_owned(),
            group: attribute(GROUP).or(self.group).unwrap_or_default(),
            correlation: attribute(CORRELATION).unwrap_or_else(|| id.to_string()),
            trace: attribute(TRACE).and_then(|t| t.parse().ok()),
            body: self.body.into_bytes(),
        };
        Delivery { message, lease: self.receipt_handle, deliveries: self.receive_count, failures }
    }
}

/// A group as SQS allows it: at most 128 letters, digits and plain signs. Another one is named by its digest.
pub(crate) fn group_id(group: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic();
    if !group.is_empty() && group.len() <= 128 && group.bytes().all(plain) && !group.starts_with("sha256:") {
        return group.to_owned();
    }
    format!("sha256:{}", Digest::of(group.as_bytes()))
}
