//! What a doctor looks at wherever the rows are: invariants, dead letters, closed environments.

use domain::{EnvironmentSlot, ProvisioningRun, invariants};
use events::TenantId;
use ports::queue::dead_of;
use ports::rows::By;
use ports::{PortError, Queue, Store};
use serde::{Deserialize, Serialize};

/// One check of the doctor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// Whether it is in order.
    pub ok: bool,
    /// What was found, and what to do.
    pub detail: String,
}

impl Check {
    /// A check that is in order, or says what isn't.
    pub fn of(name: impl Into<String>, result: Result<String, String>) -> Check {
        let ok = result.is_ok();
        Check { name: name.into(), ok, detail: result.unwrap_or_else(|problem| problem) }
    }
}

/// The checks of a tenant's rows and queues.
pub async fn checks(store: &Store, queue: &dyn Queue, tenant: &TenantId) -> Vec<Check> {
    let found = [
        ("invariants", kept(store, tenant).await),
        ("dead letters", dead(queue, tenant).await),
        ("environments", open(store, tenant).await),
    ];
    found.map(|(name, found)| Check::of(name, found.unwrap_or_else(|e| Err(e.chain())))).into()
}

async fn kept(store: &Store, tenant: &TenantId) -> Result<Result<String, String>, PortError> {
    let runs = store.find_all::<ProvisioningRun>(By::Tenant(tenant)).await?;
    let slots = store.find_all::<EnvironmentSlot>(By::Tenant(tenant)).await?;
    let mut broken: Vec<String> = runs.iter().flat_map(invariants::of_run).collect();
    broken.extend(slots.iter().flat_map(invariants::of_slot));
    Ok(if broken.is_empty() {
        Ok("every run and slot keeps its invariants".to_owned())
    } else {
        Err(broken.join("; "))
    })
}

async fn dead(queue: &dyn Queue, tenant: &TenantId) -> Result<Result<String, String>, PortError> {
    let dead = dead_of(queue, tenant).await?;
    Ok(if dead.is_empty() {
        Ok("no dead letters".to_owned())
    } else {
        Err(format!("{} dead letter(s): `runtime-cloud events dead`", dead.len()))
    })
}

async fn open(store: &Store, tenant: &TenantId) -> Result<Result<String, String>, PortError> {
    let slots = store.find_all::<EnvironmentSlot>(By::Tenant(tenant)).await?;
    let closed: Vec<&str> =
        slots.iter().filter(|s| s.tainted.is_some()).map(|s| s.environment.as_str()).collect();
    Ok(if closed.is_empty() {
        Ok("no environment is closed".to_owned())
    } else {
        Err(format!("closed: {}", closed.join(", ")))
    })
}
