//! A bus that fails.

use std::sync::Arc;

use async_trait::async_trait;
use events::Envelope;
use ports::{Bus, PortError};

use super::schedule::{Faults, under};

/// A bus that fails when it publishes.
pub struct FaultyBus {
    bus: Arc<dyn Bus>,
    faults: Arc<Faults>,
}

impl FaultyBus {
    /// Over a bus.
    pub fn new(bus: Arc<dyn Bus>, faults: impl Into<Arc<Faults>>) -> FaultyBus {
        FaultyBus { bus, faults: faults.into() }
    }
}

#[async_trait]
impl Bus for FaultyBus {
    async fn publish(&self, envelope: &Envelope) -> Result<(), PortError> {
        under!(self.faults, self.bus.publish(envelope))
    }
}
