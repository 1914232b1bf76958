//! What was committed and has not left yet.

use std::time::Duration;

use async_trait::async_trait;
use ports::commit::Letter;
use ports::stored_letter::StoredLetter;
use ports::{Letters, PortError};
use rusqlite::params;
use uuid::Uuid;

use crate::database::{Database, uuid};

/// What the watchers of letters watch.
pub(crate) const LETTERS: &str = "Letters";

/// The letters of a database.
#[derive(Clone)]
pub struct EmbeddedLetters(pub Database);

#[async_trait]
impl Letters for EmbeddedLetters {
    async fn pending(&self, limit: u32) -> Result<Vec<Letter>, PortError> {
        let rows = self
            .0
            .read(move |c| {
                let sql = "SELECT id, body FROM Letters WHERE parked IS NULL ORDER BY seq LIMIT ?1";
                let mut statement = c.prepare_cached(sql)?;
                let rows = statement.query_map([limit], |r| Ok((r.get(0)?, r.get(1)?)))?;
                rows.collect::<rusqlite::Result<Vec<(String, Vec<u8>)>>>()
            })
            .await?;
        let mut letters = Vec::with_capacity(rows.len());
        for (id, body) in rows {
            let id = uuid(&id);
            match serde_json::from_slice::<StoredLetter>(&body) {
                Ok(stored) => letters.push(stored.into()),
                // One that can't be read is put aside; the others go on.
                Err(e) => self.park(id, &format!("it can't be read: {e}")).await?,
            }
        }
        Ok(letters)
    }

    async fn sent(&self, ids: &[Uuid]) -> Result<(), PortError> {
        let ids = ids.to_vec();
        // A power cut may forget it: the letter leaves again, under the same id.
        let write = self.0.write_soon(move |c| {
            let mut statement = c.prepare_cached("DELETE FROM Letters WHERE id = ?1")?;
            for id in ids {
                statement.execute([id.to_string()])?;
            }
            Ok(())
        });
        Ok(write.await?)
    }

    async fn park(&self, id: Uuid, reason: &str) -> Result<(), PortError> {
        tracing::error!(letter = %id, reason, "a letter can't leave and is put aside");
        let reason = reason.to_owned();
        let write = self.0.write(move |c| {
            c.execute("UPDATE Letters SET parked = ?2 WHERE id = ?1", params![id.to_string(), reason])
        });
        write.await?;
        Ok(())
    }

    async fn wait(&self) {
        let mut wrote = self.0.watch(LETTERS);
        wrote.mark_unchanged();
        // The time-out is a backstop for a write between the last look and this wait.
        drop(tokio::time::timeout(Duration::from_millis(500), wrote.changed()).await);
    }
}
