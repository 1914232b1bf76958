//! Sends what commits carried: events to the bus, messages to queues. A letter that is bad is put aside and the
//! others go on; one that can't leave now is tried again, and so may leave twice (Rule 7).

use std::sync::Arc;

use ports::commit::{Letter, LetterBody};
use ports::letters::Letters;
use ports::queue::{Message, Queue};
use ports::{Bus, PortError};

/// The relay.
pub struct Relay {
    /// What has not left yet.
    pub letters: Arc<dyn Letters>,
    /// Where messages go.
    pub queue: Arc<dyn Queue>,
    /// Where events go.
    pub bus: Arc<dyn Bus>,
}

impl Relay {
    /// Sends what is pending; how many left.
    pub async fn forward_pending(&self, limit: u32) -> Result<usize, PortError> {
        let letters = self.letters.pending(limit).await?;
        let mut sent = Vec::with_capacity(letters.len());
        let mut fault = None;
        for letter in &letters {
            match self.forward(letter).await {
                Ok(()) => sent.push(letter.id),
                Err(e) if e.is_temporary() => {
                    // Order holds per carrier: stop here and go on from here.
                    fault = Some(e);
                    break;
                }
                Err(e) => self.letters.park(letter.id, &e.chain()).await?,
            }
        }
        if !sent.is_empty() {
            self.letters.sent(&sent).await?;
        }
        match fault {
            Some(e) => Err(e),
            None => Ok(letters.len()),
        }
    }

    /// Sends one letter.
    pub async fn forward(&self, letter: &Letter) -> Result<(), PortError> {
        match (&letter.body, Message::of(letter)) {
            (LetterBody::Event(envelope), _) => self.bus.publish(envelope).await,
            (LetterBody::Message { .. }, Some(message)) => self.queue.send(&message).await,
            (LetterBody::Message { .. }, None) => Ok(()),
        }
    }
}
