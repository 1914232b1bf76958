//! A letter as a database keeps it until it leaves.

use events::TraceParent;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::commit::{Letter, LetterBody};

/// A letter, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredLetter {
    /// Its id.
    pub id: Uuid,
    #[serde(flatten)]
    body: Body,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
enum Body {
    Event {
        envelope: Box<events::Envelope>,
    },
    Message {
        queue: String,
        group: String,
        body: serde_json::Value,
        correlation: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<TraceParent>,
    },
}

impl StoredLetter {
    /// As it is kept. A message's body has to be JSON.
    pub fn of(letter: &Letter) -> serde_json::Result<StoredLetter> {
        let body = match &letter.body {
            LetterBody::Event(envelope) => Body::Event { envelope: envelope.clone() },
            LetterBody::Message { queue, group, body, correlation, trace } => Body::Message {
                queue: queue.clone(),
                group: group.clone(),
                body: serde_json::from_slice(body)?,
                correlation: correlation.clone(),
                trace: *trace,
            },
        };
        Ok(StoredLetter { id: letter.id, body })
    }
}

impl From<StoredLetter> for Letter {
    fn from(stored: StoredLetter) -> Letter {
        let body = match stored.body {
            Body::Event { envelope } => LetterBody::Event(envelope),
            Body::Message { queue, group, body, correlation, trace } => {
                LetterBody::Message { queue, group, body: body.to_string().into_bytes(), correlation, trace }
            }
        };
        Letter { id: stored.id, body }
    }
}
