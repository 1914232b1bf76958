//! What only a host can do: configuration, backups, a look at itself.

use std::path::PathBuf;
use std::sync::Arc;

use application::queries::{self, Check};
use async_trait::async_trait;
use embedded::{Backup, EmbeddedBus, EmbeddedConfig, EmbeddedQueue};
use events::TenantId;
use http_api::{EventLog, LoggedEvent, Operations, Problem};
use ports::{Clock, PortError, Store};
use pulumi::ToolBox;

use crate::schedule_loop::backup;

/// The host's own operations.
pub struct HostOperations {
    /// Configuration values.
    pub config: EmbeddedConfig,
    /// Backups.
    pub backup: Backup,
    /// The data folder.
    pub data: PathBuf,
    /// Backups that are kept.
    pub backups_kept: usize,
    /// Pulumi.
    pub tools: Arc<ToolBox>,
    /// Queues.
    pub queue: EmbeddedQueue,
    /// The store.
    pub store: Store,
    /// The bus.
    pub bus: EmbeddedBus,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl HostOperations {
    /// A backup, named by its time.
    pub async fn make_backup(&self) -> Result<String, PortError> {
        let name = self.clock.now().format("%Y%m%dT%H%M%S%3fZ").to_string();
        backup(&self.backup, &self.data.join("backups"), &name, self.backups_kept).await
    }
}

#[async_trait]
impl Operations for HostOperations {
    async fn set_config(&self, tenant: &TenantId, reference: &str, value: &str) -> Result<i64, PortError> {
        self.config.set(tenant, reference, value).await
    }

    async fn backup(&self) -> Result<String, Problem> {
        Ok(self.make_backup().await?)
    }

    async fn doctor(&self, tenant: &TenantId) -> Vec<Check> {
        let tools = self.tools.get().await;
        let tools =
            tools.map(|t| format!("Pulumi {} at {}", t.version, t.pulumi.display())).map_err(|e| e.chain());
        let mut checks = vec![Check::of("pulumi", tools)];
        checks.extend(queries::checks(&self.store, &self.queue, tenant).await);
        checks
    }
}

#[async_trait]
impl EventLog for HostOperations {
    async fn log(&self, after: i64, tenant: &TenantId, limit: u32) -> Result<Vec<LoggedEvent>, Problem> {
        let logged = self.bus.log(after, Some(tenant.to_string()), limit).await?;
        Ok(logged.into_iter().map(|l| LoggedEvent { seq: l.seq, envelope: l.envelope }).collect())
    }
}
