//! CloudEvents 1.0 in JSON, structured mode: the form of every event on the bus, in both directions.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Event, EventId, InboundData, TenantId, TraceParent, is_unshowable};

/// One event with what it says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// Always "1.0".
    pub specversion: String,
    /// The same event has the same id, however often it is sent.
    pub id: String,
    /// `/runtime-cloud/<Service>` for ours.
    pub source: String,
    /// The topic; also the bus's detail-type.
    #[serde(rename = "type")]
    pub topic: String,
    /// Id of the aggregate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it happened, RFC 3339 UTC.
    pub time: DateTime<Utc>,
    /// Always "application/json".
    #[serde(default = "json")]
    pub datacontenttype: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenantid: Option<TenantId>,
    /// The chain of work that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlationid: Option<String>,
    /// The message that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causationid: Option<String>,
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The event's own fields.
    pub data: Value,
}

fn json() -> String {
    "application/json".to_owned()
}

/// Why an envelope was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The bytes are no envelope.
    #[error("the event is no CloudEvents 1.0 envelope in JSON: {problem}")]
    NotAnEnvelope {
        /// What the parser says, with the field's path.
        problem: String,
    },
    /// The payload lacks a field or has a wrong one.
    #[error("{topic}: field {field}: {problem}")]
    Field {
        /// The event's topic.
        topic: String,
        /// Path of the field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nobody here takes in such an event.
    #[error(
        "topic {topic:?} is not taken in here; send one of the inbound events, or map it to one of them first"
    )]
    UnknownTopic {
        /// The topic that came.
        topic: String,
    },
}

impl Envelope {
    /// Reads an envelope from bytes.
    pub fn parse(bytes: &[u8]) -> Result<Envelope, EnvelopeError> {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let envelope: Envelope = serde_path_to_error::deserialize(&mut json)
            .map_err(|e| EnvelopeError::NotAnEnvelope { problem: at(&e) })?;
        if envelope.specversion != "1.0" {
            return Err(EnvelopeError::NotAnEnvelope {
                problem: format!("specversion is {:?}; send \"1.0\"", envelope.specversion),
            });
        }
        envelope.checked()
    }

    /// Refuses names that no log, queue or bus takes as they are.
    pub fn checked(self) -> Result<Envelope, EnvelopeError> {
        let named = [
            ("id", Some(&self.id)),
            ("source", Some(&self.source)),
            ("subject", self.subject.as_ref()),
            ("correlationid", self.correlationid.as_ref()),
            ("causationid", self.causationid.as_ref()),
        ];
        for (field, text) in named {
            let Some(text) = text else { continue };
            if text.trim().is_empty() || text.chars().count() > 256 || is_unshowable(text) {
                return Err(EnvelopeError::NotAnEnvelope {
                    problem: format!("{field} must have 1 to 256 characters, and no control characters"),
                });
            }
        }
        Ok(self)
    }

    /// Reads the payload as one inbound event.
    pub fn read<T: InboundData>(&self) -> Result<T, EnvelopeError> {
        let refused = |field, problem| EnvelopeError::Field { topic: self.topic.clone(), field, problem };
        // The parser would take a list as its fields in their order.
        if !self.data.is_object() {
            return Err(refused("data".to_owned(), "it must be an object".to_owned()));
        }
        serde_path_to_error::deserialize(&self.data).map_err(|e| {
            let field = match e.path().to_string().as_str() {
                "." => "data".to_owned(),
                path => format!("data.{path}"),
            };
            refused(field, e.inner().to_string())
        })
    }

    /// The trace that the event belongs to; none, if what stands there is no trace.
    pub fn trace(&self) -> Option<TraceParent> {
        self.traceparent.as_deref().and_then(|t| t.parse().ok())
    }

    /// Wraps one of our events. `correlation` and `causation` are the ids of the work that made it, `trace` its span.
    pub fn of(
        event: &Event,
        id: EventId,
        time: DateTime<Utc>,
        correlation: Option<String>,
        causation: Option<String>,
        trace: Option<TraceParent>,
    ) -> serde_json::Result<Envelope> {
        Ok(Envelope {
            specversion: "1.0".to_owned(),
            id: id.to_string(),
            source: format!("/runtime-cloud/{}", event.producer().name()),
            topic: event.topic().to_owned(),
            subject: Some(event.subject()),
            time,
            datacontenttype: json(),
            tenantid: Some(event.tenant().clone()),
            correlationid: correlation,
            causationid: causation,
            traceparent: trace.map(|t| t.to_string()),
            data: event.data()?,
        })
    }
}

fn at(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    match error.path().to_string().as_str() {
        "." => error.inner().to_string(),
        path => format!("field {path}: {}", error.inner()),
    }
}
