//! Configuration values, versioned, in the store's own file.

use std::sync::Arc;

use async_trait::async_trait;
use events::TenantId;
use ports::config_platform::{ConfigPlatform, ConfigValue};
use ports::{Clock, PortError};
use rusqlite::{OptionalExtension, params};

use crate::database::{Database, millis};

/// The values of a database.
#[derive(Clone)]
pub struct EmbeddedConfig {
    /// The file.
    pub database: Database,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl EmbeddedConfig {
    /// Sets a value; the version that it has now. The same value again is the same version.
    pub async fn set(&self, tenant: &TenantId, reference: &str, value: &str) -> Result<i64, PortError> {
        let (tenant, reference, value) = (tenant.to_string(), reference.to_owned(), value.to_owned());
        let now = millis(self.clock.now());
        let write = self.database.write(move |c| {
            let sql = "SELECT version, value FROM ConfigValues WHERE tenant = ?1 AND ref = ?2
                       ORDER BY version DESC LIMIT 1";
            let newest: Option<(i64, String)> = c
                .prepare_cached(sql)?
                .query_row(params![tenant, reference], |r| Ok((r.get(0)?, r.get(1)?)))
                .optional()?;
            let version = match newest {
                Some((version, same)) if same == value => return Ok(version),
                Some((version, _)) => version + 1,
                None => 1,
            };
            let sql =
                "INSERT INTO ConfigValues (tenant, ref, version, value, at) VALUES (?1, ?2, ?3, ?4, ?5)";
            c.execute(sql, params![tenant, reference, version, value, now])?;
            Ok(version)
        });
        Ok(write.await?)
    }
}

#[async_trait]
impl ConfigPlatform for EmbeddedConfig {
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<Option<ConfigValue>, PortError> {
        let (tenant, reference) = (tenant.to_string(), reference.to_owned());
        self.database
            .read(move |c| {
                let sql = "SELECT version, value FROM ConfigValues WHERE tenant = ?1 AND ref = ?2
                           ORDER BY version DESC LIMIT 1";
                c.prepare_cached(sql)?
                    .query_row(params![tenant, reference], |r| {
                        let version: i64 = r.get(0)?;
                        Ok(ConfigValue { version: version.to_string(), value: r.get(1)? })
                    })
                    .optional()
            })
            .await
    }
}
