//! Messages as SQS carries them: the body is the worker's input, everything else stands in attributes.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
};
use domain::Digest;
use ports::PortError;
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

const ID: &str = "id";
const GROUP: &str = "group";
const CORRELATION: &str = "correlation";
const TRACE: &str = "traceparent";
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

pub(crate) fn attribute(value: &str) -> Result<MessageAttributeValue, PortError> {
    MessageAttributeValue::builder()
        .data_type("String")
        .string_value(value)
        .build()
        .map_err(|e| PortError::broken_by("a message's attribute can't be written", "report this", e))
}

/// Attributes of a message; SQS allows none that is empty.
pub(crate) fn attributes(message: &Message) -> Result<Vec<(String, MessageAttributeValue)>, PortError> {
    let id = message.id.to_string();
    let trace = message.trace.map(|t| t.to_string()).unwrap_or_default();
    let all = [(ID, &id), (GROUP, &message.group), (CORRELATION, &message.correlation), (TRACE, &trace)];
    all.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| Ok((name.to_owned(), attribute(value)?)))
        .collect()
}

/// The same trace, where Lambda looks for it.
pub(crate) fn x_ray(
    message: &Message,
) -> Result<Option<HashMap<MessageSystemAttributeNameForSends, MessageSystemAttributeValue>>, PortError> {
    let Some(trace) = message.trace else { return Ok(None) };
    let value =
        MessageSystemAttributeValue::builder().data_type("String").string_value(trace.x_ray()).build();
    let value = value.map_err(|e| PortError::broken_by("a trace can't be written", "report this", e))?;
    Ok(Some([(MessageSystemAttributeNameForSends::AwsTraceHeader, value)].into()))
}

/// A group as SQS allows it: at most 128 letters, digits and plain signs. Another one is named by its digest.
pub(crate) fn group_id(group: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic();
    if !group.is_empty() && group.len() <= 128 && group.bytes().all(plain) && !group.starts_with("sha256:") {
        return group.to_owned();
    }
    format!("sha256:{}", Digest::of(group.as_bytes()))
}
