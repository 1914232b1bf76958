//! The bus: every event is kept, and rules send copies to queues.

use std::sync::Arc;

use async_trait::async_trait;
use events::Envelope;
use ports::queue::Message;
use ports::{Bus, Clock, PortError};
use rusqlite::params;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::database::{Database, millis};
use crate::queue::insert;

/// Who gets a copy of which event.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The event's topic.
    pub topic: &'static str,
    /// The queue of the handler.
    pub queue: &'static str,
    /// The copy's group.
    pub group: fn(&Envelope) -> String,
}

/// The bus of a database.
#[derive(Clone)]
pub struct EmbeddedBus {
    /// The file.
    pub database: Database,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The rules.
    pub rules: Arc<[Rule]>,
}

/// An event that was on the bus.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoggedEvent {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// The event.
    pub envelope: Envelope,
}

#[async_trait]
impl Bus for EmbeddedBus {
    async fn publish(&self, envelope: &Envelope) -> Result<(), PortError> {
        let json = |e| PortError::broken_by("an event can't be written as JSON", "report this", e);
        let bytes = serde_json::to_vec(envelope).map_err(json)?;
        let now = millis(self.clock.now());
        let correlation = envelope.correlationid.clone().unwrap_or_else(|| envelope.id.clone());
        let mut copies = vec![];
        for rule in self.rules.iter().filter(|r| r.topic == envelope.topic) {
            let name = format!("copy/{}/{}/{}", envelope.source, envelope.id, rule.queue);
            copies.push(Message {
                id: Uuid::new_v5(&domain::deployment_specification::NAMESPACE, name.as_bytes()),
                queue: rule.queue.to_owned(),
                group: (rule.group)(envelope),
                body: bytes.clone(),
                correlation: correlation.clone(),
                trace: envelope.trace(),
            });
        }
        let queues: Vec<String> = copies.iter().map(|c| c.queue.clone()).collect();
        let envelope = envelope.clone();
        let write = self.database.write(move |c| {
            let sql = "INSERT OR IGNORE INTO Events (id, source, topic, tenant, at, envelope)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let tenant = envelope.tenantid.as_ref().map(|t| t.as_str());
            let row = params![envelope.id, envelope.source, envelope.topic, tenant, now, bytes];
            // The same event twice is one.
            if c.prepare_cached(sql)?.execute(row)? == 1 {
                for copy in &copies {
                    insert(c, copy, now)?;
                }
            }
            Ok(())
        });
        write.await?;
        for queue in queues {
            self.database.touched(&queue);
        }
        Ok(())
    }
}

impl EmbeddedBus {
    /// Events in their order, behind `after`; of one tenant, or of all.
    pub async fn log(
        &self,
        after: i64,
        tenant: Option<String>,
        limit: u32,
    ) -> Result<Vec<LoggedEvent>, PortError> {
        let rows = self
            .database
            .read(move |c| {
                let sql = "SELECT seq, envelope FROM Events WHERE seq > ?1 AND (?2 IS NULL OR tenant = ?2)
                           ORDER BY seq LIMIT ?3";
                let mut statement = c.prepare_cached(sql)?;
                let rows =
                    statement.query_map(params![after, tenant, limit], |r| Ok((r.get(0)?, r.get(1)?)))?;
                rows.collect::<rusqlite::Result<Vec<(i64, Vec<u8>)>>>()
            })
            .await?;
        let read = |(seq, bytes): (i64, Vec<u8>)| {
            serde_json::from_slice(&bytes)
                .map(|envelope| LoggedEvent { seq, envelope })
                .map_err(|e| PortError::broken_by("a kept event can't be read", "restore a backup", e))
        };
        rows.into_iter().map(read).collect()
    }
}
