//! A queue that fails.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::{DeadLetter, Delivery, Message};
use ports::{PortError, Queue};
use uuid::Uuid;

use super::schedule::{Faults, under};

/// A queue that fails at every call that changes it.
pub struct FaultyQueue {
    queue: Arc<dyn Queue>,
    faults: Arc<Faults>,
}

impl FaultyQueue {
    /// Over a queue.
    pub fn new(queue: Arc<dyn Queue>, faults: impl Into<Arc<Faults>>) -> FaultyQueue {
        FaultyQueue { queue, faults: faults.into() }
    }
}

#[async_trait]
impl Queue for FaultyQueue {
    async fn send(&self, message: &Message) -> Result<(), PortError> {
        under!(self.faults, self.queue.send(message))
    }

    async fn receive(&self, queue: &str, lease: Duration) -> Result<Option<Delivery>, PortError> {
        under!(self.faults, self.queue.receive(queue, lease))
    }

    async fn extend(&self, delivery: &Delivery, lease: Duration) -> Result<bool, PortError> {
        under!(self.faults, self.queue.extend(delivery, lease))
    }

    async fn done(&self, delivery: &Delivery) -> Result<bool, PortError> {
        under!(self.faults, self.queue.done(delivery))
    }

    async fn retry(&self, delivery: &Delivery, delay: Duration, failed: bool) -> Result<bool, PortError> {
        under!(self.faults, self.queue.retry(delivery, delay, failed))
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<bool, PortError> {
        under!(self.faults, self.queue.bury(delivery, reason))
    }

    async fn dead(&self, limit: u32) -> Result<Vec<DeadLetter>, PortError> {
        self.faults.alive()?;
        self.queue.dead(limit).await
    }

    async fn redrive(&self, id: Uuid) -> Result<bool, PortError> {
        under!(self.faults, self.queue.redrive(id))
    }
}
