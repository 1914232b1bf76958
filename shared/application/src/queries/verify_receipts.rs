//! Walks an environment's chain of receipts and names the first break.

use domain::aggregate::Scoped;
use domain::receipt::ChainLink;
use domain::{Digest, EnvironmentSlot, ProvisioningRun};
use events::{EnvironmentId, TenantId};
use ports::receipts::{blob_key, chain_key, copy_link};
use ports::rows::By;
use ports::{PortError, Receipts, Store};
use serde::{Deserialize, Serialize};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainReport {
    /// The environment.
    pub environment_id: EnvironmentId,
    /// Links that hold.
    pub verified: u64,
    /// The first that doesn't, and why.
    pub broken: Option<String>,
}

/// Verifies. Links are taken from the store's runs: only committed links count. Their copies beside the blobs are
/// made where they are missing.
pub async fn verify_receipts(
    store: &Store,
    receipts: &dyn Receipts,
    tenant: &TenantId,
    environment: &EnvironmentId,
) -> Result<ChainReport, PortError> {
    let slot = Scoped::new(tenant.clone(), environment.clone());
    let slot = store.need::<EnvironmentSlot>(&slot).await?;
    let runs = store.find_all::<ProvisioningRun>(By::Environment(tenant, environment)).await?;
    let mut links: Vec<ChainLink> =
        runs.into_iter().flat_map(|r| [r.plan.map(|p| p.link), r.apply.map(|a| a.link)]).flatten().collect();
    links.sort_by_key(|l| l.sequence);
    let mut report = ChainReport { environment_id: environment.clone(), verified: 0, broken: None };
    let mut previous: Option<Digest> = None;
    for link in &links {
        let expected = report.verified + 1;
        if link.sequence != expected {
            report.broken =
                Some(format!("link {expected} is missing: the chain goes on with {}", link.sequence));
            return Ok(report);
        }
        if let Some(broken) = broken_link(receipts, tenant, environment, link, previous.as_ref()).await? {
            report.broken = Some(format!("link {} (run {}): {broken}", link.sequence, link.run));
            return Ok(report);
        }
        previous = Some(link.digest());
        report.verified += 1;
    }
    let head = slot.chain.as_ref().map(|c| (c.sequence, c.digest.clone()));
    let end = previous.map(|digest| (report.verified, digest));
    if head != end {
        let shown = |end: Option<(u64, Digest)>| {
            end.map_or("nothing".to_owned(), |(n, d)| format!("{n}/{}", d.short()))
        };
        report.broken = Some(format!("the chain ends at {}, but its head is {}", shown(end), shown(head)));
    }
    Ok(report)
}

async fn broken_link(
    receipts: &dyn Receipts,
    tenant: &TenantId,
    environment: &EnvironmentId,
    link: &ChainLink,
    previous: Option<&Digest>,
) -> Result<Option<String>, PortError> {
    if link.previous.as_ref() != previous {
        return Ok(Some("it doesn't name the link before it".to_owned()));
    }
    match receipts.get(&blob_key(&link.receipt)).await? {
        None => return Ok(Some(format!("receipt {} is missing", link.receipt))),
        Some(bytes) if Digest::of(&bytes) != link.receipt => {
            return Ok(Some(format!("receipt {} was changed", link.receipt)));
        }
        Some(_) => {}
    }
    match copy_link(receipts, tenant, environment, link).await? {
        ports::Put::Created | ports::Put::Same => Ok(None),
        ports::Put::Different => {
            Ok(Some(format!("its copy {} was changed", chain_key(tenant, environment, link))))
        }
    }
}
