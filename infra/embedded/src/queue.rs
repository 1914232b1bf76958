//! Durable queues in the store's own file.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use ports::queue::{DeadLetter, Delivery, Message, Queue};
use ports::{Clock, Ids, PortError};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use crate::database::{Database, millis, time, uuid};

/// The queues of a database.
#[derive(Clone)]
pub struct EmbeddedQueue {
    /// The file.
    pub database: Database,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Names of receipts.
    pub ids: Arc<dyn Ids>,
}

fn after(now: i64, delay: Duration) -> i64 {
    now.saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX))
}

/// Puts a message into the table; an id that is there already changes nothing.
pub(crate) fn insert(c: &Connection, message: &Message, now: i64) -> rusqlite::Result<usize> {
    let sql = "INSERT OR IGNORE INTO Messages (id, queue, grp, body, correlation, trace, visible_at, sent_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)";
    c.prepare_cached(sql)?.execute(params![
        message.id.to_string(),
        message.queue,
        message.group,
        message.body,
        message.correlation,
        message.trace.map(|t| t.to_string()),
        now
    ])
}

impl EmbeddedQueue {
    fn now(&self) -> i64 {
        millis(self.clock.now())
    }

    /// Changes whenever there may be a message in a queue that wasn't before.
    pub fn changed(&self, queue: &str) -> tokio::sync::watch::Receiver<u64> {
        self.database.watch(queue)
    }

    /// Frees every message that a host which is gone had received: for a host that has just locked the folder.
    pub async fn free_all(&self) -> Result<(), PortError> {
        let write = self.database.write(|c| {
            c.execute("UPDATE Messages SET lease = NULL, lease_until = NULL WHERE lease IS NOT NULL", [])
        });
        write.await?;
        Ok(())
    }

    /// Forgets settled messages that are older than `kept`, and claims whose time is over.
    pub async fn forget(&self, kept: TimeDelta) -> Result<usize, PortError> {
        let before = millis(self.clock.now() - kept);
        let write = self.database.write(move |c| {
            c.execute("DELETE FROM Claims WHERE until < ?1", [before])?;
            c.execute("DELETE FROM Messages WHERE state = 'done' AND settled_at < ?1", [before])
        });
        Ok(write.await?)
    }

    /// How many messages wait, by queue.
    pub async fn depths(&self) -> Result<Vec<(String, i64)>, PortError> {
        self.database
            .read(|c| {
                let sql = "SELECT queue, count(*) FROM Messages WHERE state = 'ready' GROUP BY queue ORDER BY queue";
                let mut statement = c.prepare_cached(sql)?;
                let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?;
                rows.collect()
            })
            .await
    }

    /// Settles a delivery if its lease still holds.
    async fn settle(&self, delivery: &Delivery, to: Settled) -> Result<bool, PortError> {
        let (id, lease) = (delivery.message.id.to_string(), delivery.lease.clone());
        let sql = "UPDATE Messages SET state = ?3, lease_until = ?4,
                     lease = CASE WHEN ?4 IS NULL THEN NULL ELSE lease END,
                     visible_at = coalesce(?5, visible_at), failures = failures + ?6, reason = ?7, settled_at = ?8
                   WHERE id = ?1 AND lease = ?2 AND state = 'ready'";
        let work = move |c: &Connection| {
            c.prepare_cached(sql)?.execute(params![
                id,
                lease,
                to.state,
                to.lease_until,
                to.visible_at,
                to.failed,
                to.reason,
                to.settled_at
            ])
        };
        // What a power cut may forget comes again; that it failed, or is dead, may not be forgotten.
        let changed = if to.failed || to.state == "dead" {
            self.database.write(work).await?
        } else {
            self.database.write_soon(work).await?
        };
        // Those behind it in its group may have their turn now.
        self.database.touched(&delivery.message.queue);
        Ok(changed == 1)
    }
}

/// What becomes of a received message.
struct Settled {
    state: &'static str,
    lease_until: Option<i64>,
    visible_at: Option<i64>,
    failed: bool,
    reason: Option<String>,
    settled_at: Option<i64>,
}

const READY: Settled = Settled {
    state: "ready",
    lease_until: None,
    visible_at: None,
    failed: false,
    reason: None,
    settled_at: None,
};

#[async_trait]
impl Queue for EmbeddedQueue {
    async fn send(&self, message: &Message) -> Result<(), PortError> {
        let (message, now) = (message.clone(), self.now());
        let queue = message.queue.clone();
        self.database.write(move |c| insert(c, &message, now)).await?;
        self.database.touched(&queue);
        Ok(())
    }

    async fn receive(&self, queue: &str, lease: Duration) -> Result<Option<Delivery>, PortError> {
        let (queue, now, name) = (queue.to_owned(), self.now(), self.ids.fresh());
        // A look first: an idle loop writes nothing.
        let wanted = queue.clone();
        let found = self.database.read(move |c| first(c, &wanted, now)).await?;
        if found.is_none() {
            return Ok(None);
        }
        let until = after(now, lease);
        // A power cut may forget that it was received: then it is received again.
        let write = self.database.write_soon(move |c| {
            let Some((seq, mut delivery)) = first(c, &queue, now)? else { return Ok(None) };
            let sql = "UPDATE Messages SET lease = ?2, lease_until = ?3, deliveries = deliveries + 1 WHERE seq = ?1";
            c.prepare_cached(sql)?.execute(params![seq, name.to_string(), until])?;
            delivery.lease = name.to_string();
            delivery.deliveries += 1;
            Ok(Some(delivery))
        });
        Ok(write.await?)
    }

    async fn extend(&self, delivery: &Delivery, lease: Duration) -> Result<bool, PortError> {
        let lease_until = Some(after(self.now(), lease));
        self.settle(delivery, Settled { lease_until, ..READY }).await
    }

    async fn done(&self, delivery: &Delivery) -> Result<bool, PortError> {
        self.settle(delivery, Settled { state: "done", settled_at: Some(self.now()), ..READY }).await
    }

    async fn retry(&self, delivery: &Delivery, delay: Duration, failed: bool) -> Result<bool, PortError> {
        let visible_at = Some(after(self.now(), delay));
        self.settle(delivery, Settled { visible_at, failed, ..READY }).await
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<bool, PortError> {
        let reason = Some(reason.to_owned());
        self.settle(delivery, Settled { state: "dead", reason, settled_at: Some(self.now()), ..READY }).await
    }

    async fn dead(&self, limit: u32) -> Result<Vec<DeadLetter>, PortError> {
        self.database
            .read(move |c| {
                let sql = "SELECT id, queue, grp, body, reason, settled_at FROM Messages WHERE state = 'dead'
                           ORDER BY seq LIMIT ?1";
                let mut statement = c.prepare_cached(sql)?;
                let rows = statement.query_map([limit], |r| {
                    let (id, body): (String, Vec<u8>) = (r.get(0)?, r.get(3)?);
                    Ok(DeadLetter {
                        id: uuid(&id),
                        queue: r.get(1)?,
                        group: r.get(2)?,
                        body: String::from_utf8_lossy(&body).into_owned(),
                        reason: r.get::<_, Option<String>>(4)?.unwrap_or_default(),
                        at: time(r.get::<_, Option<i64>>(5)?.unwrap_or_default()),
                    })
                })?;
                rows.collect()
            })
            .await
    }

    async fn redrive(&self, id: Uuid) -> Result<bool, PortError> {
        let now = self.now();
        let write = self.database.write(move |c| {
            let sql = "UPDATE Messages SET state = 'ready', visible_at = ?2, deliveries = 0, failures = 0,
                       reason = NULL, settled_at = NULL WHERE id = ?1 AND state = 'dead' RETURNING queue";
            c.query_row(sql, params![id.to_string(), now], |r| r.get::<_, String>(0)).optional()
        });
        let queue = write.await?;
        if let Some(queue) = &queue {
            self.database.touched(queue);
        }
        Ok(queue.is_some())
    }
}

/// The first message of a queue whose group is free: an earlier one of the same group, received or waiting for its
/// next attempt, is in the way of all behind it.
fn first(c: &Connection, queue: &str, now: i64) -> rusqlite::Result<Option<(i64, Delivery)>> {
    let sql = "SELECT seq, id, grp, body, correlation, deliveries, failures, trace FROM Messages m
               WHERE queue = ?1 AND state = 'ready' AND visible_at <= ?2
                 AND (lease_until IS NULL OR lease_until <= ?2)
                 AND NOT EXISTS (SELECT 1 FROM Messages e WHERE e.queue = m.queue AND e.grp = m.grp
                                 AND e.state = 'ready' AND e.seq < m.seq)
               ORDER BY seq LIMIT 1";
    c.prepare_cached(sql)?
        .query_row(params![queue, now], |r| {
            let id: String = r.get(1)?;
            let message = Message {
                id: uuid(&id),
                queue: queue.to_owned(),
                group: r.get(2)?,
                body: r.get(3)?,
                correlation: r.get(4)?,
                trace: r.get::<_, Option<String>>(7)?.and_then(|t| t.parse().ok()),
            };
            Ok((
                r.get(0)?,
                Delivery { message, lease: String::new(), deliveries: r.get(5)?, failures: r.get(6)? },
            ))
        })
        .optional()
}
