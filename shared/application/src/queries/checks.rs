//! What a doctor looks at wherever the rows are: invariants, dead letters, closed environments.

use domain::{EnvironmentSlot, ProvisioningRun, invariants};
use events::TenantId;
use ports::queue::dead_of;
use ports::rows::{Behind, By, Page};
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

/// How many runs are looked at: the newest ones, as a tenant's history has no end.
const LOOKED_AT: usize = 1000;

/// The checks of a tenant's rows and queues.
pub async fn checks(store: &Store, queue: &dyn Queue, tenant: &TenantId) -> Vec<Check> {
    let (kept, open) = match store.find_all::<EnvironmentSlot>(By::Tenant(tenant)).await {
        Ok(slots) => (kept(store, tenant, &slots).await.unwrap_or_else(|e| Err(e.chain())), open(&slots)),
        Err(e) => (Err(e.chain()), Err(e.chain())),
    };
    let dead = dead(queue, tenant).await.unwrap_or_else(|e| Err(e.chain()));
    [("invariants", kept), ("dead letters", dead), ("environments", open)]
        .map(|(name, found)| Check::of(name, found))
        .into()
}

async fn kept(
    store: &Store,
    tenant: &TenantId,
    slots: &[EnvironmentSlot],
) -> Result<Result<String, String>, PortError> {
    let mut broken: Vec<String> = slots.iter().flat_map(invariants::of_slot).collect();
    let (mut looked_at, mut page) = (0, Page::default());
    let more = loop {
        let newest = By::Newest(tenant, None, Behind::Nothing);
        let (runs, next) = store.find::<ProvisioningRun>(newest, page).await?;
        looked_at += runs.len();
        broken.extend(runs.iter().flat_map(invariants::of_run));
        match next {
            Some(_) if looked_at >= LOOKED_AT => break true,
            Some(after) => page = Page { limit: 0, after: Some(after) },
            None => break false,
        }
    };
    if !broken.is_empty() {
        return Ok(Err(broken.join("; ")));
    }
    Ok(Ok(if more {
        format!("every slot and the newest {looked_at} runs keep their invariants")
    } else {
        "every run and slot keeps its invariants".to_owned()
    }))
}

async fn dead(queue: &dyn Queue, tenant: &TenantId) -> Result<Result<String, String>, PortError> {
    let dead = dead_of(queue, tenant).await?;
    Ok(if dead.is_empty() {
        Ok("no dead letters".to_owned())
    } else {
        Err(format!("{} dead letter(s): `runtime-cloud events dead`", dead.len()))
    })
}

fn open(slots: &[EnvironmentSlot]) -> Result<String, String> {
    let closed: Vec<&str> =
        slots.iter().filter(|s| s.tainted.is_some()).map(|s| s.environment.as_str()).collect();
    if closed.is_empty() {
        Ok("no environment is closed".to_owned())
    } else {
        Err(format!("closed: {}", closed.join(", ")))
    }
}
