//! Durable queues. A message can come twice, late, or in another order between groups; within a group one at a
//! time, in order.

use std::time::Duration;

use async_trait::async_trait;
use events::{TenantId, TraceParent};
use uuid::Uuid;

use crate::commit::{Letter, LetterBody};
use crate::error::PortError;

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Deduplicates this message only.
    pub id: Uuid,
    /// The queue: the name of the worker or handler that reads it.
    pub queue: String,
    /// One message of a group at a time.
    pub group: String,
    /// JSON.
    pub body: Vec<u8>,
    /// The chain of work that it belongs to.
    pub correlation: String,
    /// The span that sent it; None where nobody traced.
    pub trace: Option<TraceParent>,
}

impl Message {
    /// A letter that is a message; None for an event.
    pub fn of(letter: &Letter) -> Option<Message> {
        match &letter.body {
            LetterBody::Event(_) => None,
            LetterBody::Message { queue, group, body, correlation, trace } => Some(Message {
                id: letter.id,
                queue: queue.clone(),
                group: group.clone(),
                body: body.clone(),
                correlation: correlation.clone(),
                trace: *trace,
            }),
        }
    }
}

/// A message that was received. It is hidden from others until its lease runs out.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// Names this receipt of it.
    pub lease: String,
    /// How often it was received.
    pub deliveries: u32,
    /// How often handling it failed.
    pub failures: u32,
}

/// A message that nobody could handle.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct DeadLetter {
    /// The message's id.
    pub id: Uuid,
    /// Its queue.
    pub queue: String,
    /// Its group.
    pub group: String,
    /// Its body.
    pub body: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: chrono::DateTime<chrono::Utc>,
}

/// Those of a tenant, oldest first, however many others have.
pub async fn dead_of(queue: &dyn Queue, tenant: &TenantId) -> Result<Vec<DeadLetter>, PortError> {
    let all = queue.dead(u32::MAX).await?;
    Ok(all.into_iter().filter(|l| l.tenant().as_deref() == Some(tenant.as_str())).collect())
}

impl DeadLetter {
    /// Whose it is: as a worker's message says, or an event, or the bus that put it aside.
    fn tenant(&self) -> Option<String> {
        let body: serde_json::Value = serde_json::from_str(&self.body).ok()?;
        let tenant = body.get("tenant").or_else(|| body.pointer("/data/tenantId"));
        let tenant = tenant.or_else(|| body.pointer("/detail/data/tenantId"))?;
        tenant.as_str().map(str::to_owned)
    }
}

/// Sends, receives, settles.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends; an id that was sent before is not sent again.
    async fn send(&self, message: &Message) -> Result<(), PortError>;
    /// Sends several, in their order; what became of each, in the same order.
    async fn send_all(&self, messages: &[&Message]) -> Vec<Result<(), PortError>> {
        let mut results = Vec::with_capacity(messages.len());
        for message in messages {
            results.push(self.send(message).await);
        }
        results
    }
    /// The next message of a queue whose group is free.
    async fn receive(&self, queue: &str, lease: Duration) -> Result<Option<Delivery>, PortError>;
    /// Keeps a received message hidden for longer. False where the lease was lost.
    async fn extend(&self, delivery: &Delivery, lease: Duration) -> Result<bool, PortError>;
    /// It was handled. False where the lease was lost.
    async fn done(&self, delivery: &Delivery) -> Result<bool, PortError>;
    /// It wasn't; try again after a delay. `failed` counts against its attempts.
    async fn retry(&self, delivery: &Delivery, delay: Duration, failed: bool) -> Result<bool, PortError>;
    /// Nobody can handle it.
    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<bool, PortError>;
    /// Messages that nobody could handle, oldest first.
    async fn dead(&self, limit: u32) -> Result<Vec<DeadLetter>, PortError>;
    /// Sends a dead message again, its attempts anew. False where there is none of that id.
    async fn redrive(&self, id: Uuid) -> Result<bool, PortError>;
}
