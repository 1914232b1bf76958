//! The bus on EventBridge: the CloudEvent is the detail, its topic the detail type.

use async_trait::async_trait;
use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::{PutEventsRequestEntry, PutEventsResultEntry};
use events::{Envelope, TraceParent};
use ports::{Bus, PortError};

use crate::fault::fault;

/// An event bus.
#[derive(Clone)]
pub struct EventBridgeBus {
    /// EventBridge.
    pub client: Client,
    /// Its name.
    pub bus: String,
}

/// At most so many events in one call.
const BATCH: usize = 10;
/// At most so many bytes in one call, and so in one event.
const BYTES: usize = 1_000_000;
/// How often those that were not taken are sent again.
const ATTEMPTS: u32 = 4;

struct Waiting {
    place: usize,
    entry: PutEventsRequestEntry,
    bytes: usize,
}

impl EventBridgeBus {
    fn entry(&self, envelope: &Envelope) -> Result<(PutEventsRequestEntry, usize), PortError> {
        let json = |e| PortError::broken_by("an event can't be written as JSON", "report this", e);
        let detail = serde_json::to_string(envelope).map_err(json)?;
        let bytes = detail.len() + envelope.source.len() + envelope.topic.len() + 64;
        if bytes > BYTES {
            return Err(PortError::broken(
                format!("event {} has {bytes} bytes; EventBridge takes {BYTES}", envelope.id),
                "give less out of the program: large outputs belong into a bucket",
            ));
        }
        let entry = PutEventsRequestEntry::builder()
            .event_bus_name(&self.bus)
            .source(&envelope.source)
            .detail_type(&envelope.topic)
            .detail(detail)
            .set_time(Some(DateTime::from_millis(envelope.time.timestamp_millis())))
            .set_trace_header(envelope.trace().map(TraceParent::x_ray))
            .set_resources(envelope.subject.clone().map(|s| vec![s]))
            .build();
        Ok((entry, bytes))
    }

    /// One call; what became of each of its events.
    async fn send(&self, batch: &[Waiting]) -> Result<Vec<PutEventsResultEntry>, PortError> {
        let entries = batch.iter().map(|w| w.entry.clone()).collect();
        let answer = self.client.put_events().set_entries(Some(entries)).send().await;
        let answer = answer.map_err(|e| fault(&format!("event bus {}", self.bus), e))?;
        Ok(answer.entries.unwrap_or_default())
    }
}

/// The first events that fit into one call.
fn batch(waiting: &[Waiting]) -> usize {
    let mut bytes = 0;
    let fits = |w: &&Waiting| {
        bytes += w.bytes;
        bytes <= BYTES
    };
    waiting.iter().take(BATCH).take_while(fits).count().max(1)
}

#[async_trait]
impl Bus for EventBridgeBus {
    async fn publish(&self, envelope: &Envelope) -> Result<(), PortError> {
        self.publish_all(&[envelope]).await.pop().unwrap_or(Ok(()))
    }

    async fn publish_all(&self, envelopes: &[&Envelope]) -> Vec<Result<(), PortError>> {
        let mut results: Vec<Result<(), PortError>> = envelopes.iter().map(|_| Ok(())).collect();
        let mut waiting = vec![];
        for (place, envelope) in envelopes.iter().enumerate() {
            match (self.entry(envelope), results.get_mut(place)) {
                (Ok((entry, bytes)), _) => waiting.push(Waiting { place, entry, bytes }),
                (Err(e), Some(result)) => *result = Err(e),
                (Err(_), None) => {}
            }
        }
        let mut attempt = 0;
        while !waiting.is_empty() {
            let rest = waiting.split_off(batch(&waiting));
            let sent = self.send(&waiting).await;
            let mut again = vec![];
            for (n, event) in waiting.into_iter().enumerate() {
                let told = sent.as_ref().map(|entries| entries.get(n).and_then(|e| e.error_code()));
                let problem = match told {
                    Ok(None) => continue,
                    Ok(Some(code)) => code.to_owned(),
                    Err(e) => e.chain(),
                };
                let passing = matches!(
                    problem.as_str(),
                    "ThrottlingException" | "InternalFailure" | "InternalException" | "ServiceUnavailable"
                );
                if passing && attempt < ATTEMPTS {
                    again.push(event);
                } else if let Some(result) = results.get_mut(event.place) {
                    *result = Err(if passing || sent.is_err() {
                        PortError::unavailable(format!("event bus {}", self.bus), problem)
                    } else {
                        PortError::broken(
                            format!("event bus {} refused an event: {problem}", self.bus),
                            "see its fields",
                        )
                    });
                }
            }
            if !again.is_empty() {
                attempt += 1;
                tokio::time::sleep(std::time::Duration::from_millis(50 << attempt)).await;
            }
            // Those that were not taken stay before the ones behind them.
            again.extend(rest);
            waiting = again;
        }
        results
    }
}

/// The CloudEvent in what a rule of the bus sends to a queue; alone, as it is among the dead letters, it is one too.
pub fn event_of(body: &[u8]) -> Result<Envelope, PortError> {
    let refused = |e: serde_json::Error| {
        PortError::broken_by(
            format!("it is no CloudEvent in an EventBridge event: {e}"),
            "correct its sender",
            e,
        )
    };
    let mut sent: serde_json::Value = serde_json::from_slice(body).map_err(refused)?;
    let alone = sent.get("specversion").is_some();
    let event =
        if alone { sent } else { sent.get_mut("detail").map(serde_json::Value::take).unwrap_or_default() };
    let envelope: Envelope = serde_json::from_value(event).map_err(refused)?;
    envelope.checked().map_err(|e| PortError::broken_by(e.to_string(), "correct its sender", e))
}
