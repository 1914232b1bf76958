//! A queue that rules of the bus fill.

use std::time::Duration;

use async_trait::async_trait;
use ports::queue::{DeadLetter, Delivery, Message};
use ports::{PortError, Queue};
use runtime_cloud_aws::{SqsQueue, event_of};
use uuid::Uuid;

/// A queue whose messages are events that a rule of the bus sent.
pub struct Unwrapped(pub SqsQueue);

#[async_trait]
impl Queue for Unwrapped {
    async fn send(&self, message: &Message) -> Result<(), PortError> {
        self.0.send(message).await
    }
    async fn receive(&self, queue: &str, lease: Duration) -> Result<Option<Delivery>, PortError> {
        let Some(mut delivery) = self.0.receive(queue, lease).await? else { return Ok(None) };
        delivery.message.body = serde_json::to_vec(&event_of(&delivery.message.body)?).expect("JSON");
        Ok(Some(delivery))
    }
    async fn extend(&self, delivery: &Delivery, lease: Duration) -> Result<bool, PortError> {
        self.0.extend(delivery, lease).await
    }
    async fn done(&self, delivery: &Delivery) -> Result<bool, PortError> {
        self.0.done(delivery).await
    }
    async fn retry(&self, delivery: &Delivery, delay: Duration, failed: bool) -> Result<bool, PortError> {
        self.0.retry(delivery, delay, failed).await
    }
    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<bool, PortError> {
        self.0.bury(delivery, reason).await
    }
    async fn dead(&self, limit: u32) -> Result<Vec<DeadLetter>, PortError> {
        self.0.dead(limit).await
    }
    async fn redrive(&self, id: Uuid) -> Result<bool, PortError> {
        self.0.redrive(id).await
    }
}
