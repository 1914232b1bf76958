//! Schedules by cron expression. Ticks that were missed while nobody was there fire once, with the newest window.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use croner::Cron;
use ports::queue::Message;
use ports::{Clock, PortError};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use crate::database::{Database, millis};
use crate::queue::insert;

/// One schedule.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The worker's name; also its queue.
    pub name: &'static str,
    /// The concurrency group of its messages.
    pub group: &'static str,
    /// When, five fields, UTC.
    pub cron: Cron,
}

/// The schedules of a database.
#[derive(Clone)]
pub struct Schedules {
    /// The file.
    pub database: Database,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Schedule {
    /// Reads an expression.
    pub fn new(name: &'static str, group: &'static str, expression: &str) -> Result<Schedule, PortError> {
        let cron = expression.parse::<Cron>().map_err(|e| {
            PortError::broken_by(
                format!("schedule {expression:?} of {name} is no cron expression"),
                "correct it",
                e,
            )
        })?;
        Ok(Schedule { name, group, cron })
    }

    /// The newest scheduled time that isn't in the future.
    pub fn window(&self, now: DateTime<Utc>) -> Result<DateTime<Utc>, PortError> {
        self.cron
            .find_previous_occurrence(&now, true)
            .map_err(|e| PortError::broken_by(format!("schedule of {}", self.name), "correct it", e))
    }
}

impl Schedules {
    /// Fires what is due: a window fires once, whoever asks and however often.
    pub async fn tick(&self, schedule: &Schedule) -> Result<Option<DateTime<Utc>>, PortError> {
        let now = self.clock.now();
        let window = schedule.window(now)?;
        let body = serde_json::json!({ "window": window }).to_string().into_bytes();
        let name = format!("window/{}/{}", schedule.name, millis(window));
        let message = Message {
            id: Uuid::new_v5(&domain::deployment_specification::NAMESPACE, name.as_bytes()),
            queue: schedule.name.to_owned(),
            group: schedule.group.to_owned(),
            body,
            correlation: name,
            trace: None,
        };
        let queue = schedule.name;
        let fired = move |c: &Connection| {
            let sql = "SELECT window FROM Schedules WHERE name = ?1";
            let last: Option<i64> = c.prepare_cached(sql)?.query_row([queue], |r| r.get(0)).optional()?;
            Ok(last.is_some_and(|last| last >= millis(window)))
        };
        // A look first: between two windows nothing is written.
        if self.database.read(fired).await? {
            return Ok(None);
        }
        let write = self.database.write(move |c| {
            if fired(c)? {
                return Ok(None);
            }
            let sql = "INSERT INTO Schedules (name, window) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET window = ?2";
            c.execute(sql, params![queue, millis(window)])?;
            insert(c, &message, millis(now))?;
            Ok(Some(window))
        });
        let fired = write.await?;
        self.database.touched(queue);
        Ok(fired)
    }
}
