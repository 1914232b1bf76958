//! The event bus.

use async_trait::async_trait;
use events::Envelope;

use crate::error::PortError;

/// Where events leave and arrive.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Publishes. The same id twice is one event: where the bus itself can't see to that, whoever gets it does.
    async fn publish(&self, envelope: &Envelope) -> Result<(), PortError>;

    /// Publishes several, in their order; what became of each, in the same order.
    async fn publish_all(&self, envelopes: &[&Envelope]) -> Vec<Result<(), PortError>> {
        let mut results = Vec::with_capacity(envelopes.len());
        for envelope in envelopes {
            results.push(self.publish(envelope).await);
        }
        results
    }
}
