//! The event bus.

use async_trait::async_trait;
use events::Envelope;

use crate::error::PortError;

/// Where events leave and arrive.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Publishes; the same id twice is one event.
    async fn publish(&self, envelope: &Envelope) -> Result<(), PortError>;
}
