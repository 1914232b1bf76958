//! What only a host can do: configuration, backups, a look at itself.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{EnvironmentSlot, ProvisioningRun, invariants};
use embedded::{Backup, EmbeddedBus, EmbeddedConfig, EmbeddedQueue};
use events::TenantId;
use http_api::{Check, EventLog, LoggedEvent, Operations};
use ports::queue::dead_of;
use ports::rows::By;
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

    async fn invariants(&self, tenant: &TenantId) -> Result<Vec<String>, PortError> {
        let runs = self.store.find_all::<ProvisioningRun>(By::Tenant(tenant)).await?;
        let slots = self.store.find_all::<EnvironmentSlot>(By::Tenant(tenant)).await?;
        let mut broken: Vec<String> = runs.iter().flat_map(invariants::of_run).collect();
        broken.extend(slots.iter().flat_map(invariants::of_slot));
        Ok(broken)
    }
}

fn check(name: &str, result: Result<String, String>) -> Check {
    let ok = result.is_ok();
    Check { name: name.to_owned(), ok, detail: result.unwrap_or_else(|problem| problem) }
}

#[async_trait]
impl Operations for HostOperations {
    async fn set_config(&self, tenant: &TenantId, reference: &str, value: &str) -> Result<i64, PortError> {
        self.config.set(tenant, reference, value).await
    }

    async fn backup(&self) -> Result<String, PortError> {
        self.make_backup().await
    }

    async fn doctor(&self, tenant: &TenantId) -> Vec<Check> {
        let tools = self.tools.get().await;
        let tools =
            tools.map(|t| format!("Pulumi {} at {}", t.version, t.pulumi.display())).map_err(|e| e.chain());
        let broken = match self.invariants(tenant).await {
            Ok(broken) if broken.is_empty() => Ok("every run and slot keeps its invariants".to_owned()),
            Ok(broken) => Err(broken.join("; ")),
            Err(e) => Err(e.chain()),
        };
        let dead = match dead_of(&self.queue, tenant).await {
            Ok(dead) if dead.is_empty() => Ok("no dead letters".to_owned()),
            Ok(dead) => Err(format!("{} dead letter(s): `runtime-cloud events dead`", dead.len())),
            Err(e) => Err(e.chain()),
        };
        let closed = match self.store.find_all::<EnvironmentSlot>(By::Tenant(tenant)).await {
            Ok(slots) => {
                let closed: Vec<String> =
                    slots.iter().filter(|s| s.tainted.is_some()).map(|s| s.environment.to_string()).collect();
                if closed.is_empty() {
                    Ok("no environment is closed".to_owned())
                } else {
                    Err(format!("closed: {}", closed.join(", ")))
                }
            }
            Err(e) => Err(e.chain()),
        };
        vec![
            check("pulumi", tools),
            check("invariants", broken),
            check("dead letters", dead),
            check("environments", closed),
        ]
    }
}

#[async_trait]
impl EventLog for HostOperations {
    async fn log(&self, after: i64, tenant: &TenantId, limit: u32) -> Result<Vec<LoggedEvent>, PortError> {
        let logged = self.bus.log(after, Some(tenant.to_string()), limit).await?;
        Ok(logged.into_iter().map(|l| LoggedEvent { seq: l.seq, envelope: l.envelope }).collect())
    }
}
