//! Walks an environment's chain of receipts and names the first break.

use domain::aggregate::{Scoped, Versioned};
use domain::receipt::ChainLink;
use domain::{Digest, EnvironmentSlot, ProvisioningRun};
use events::{EnvironmentId, TenantId};
use ports::receipts::{blob_key, chain_key, copy_link};
use ports::rows::{Behind, By};
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

/// How many links are looked at together: a chain grows for ever, and each link is some questions.
const TOGETHER: usize = 16;

/// The committed links of an environment's runs, in their order.
async fn links(
    store: &Store,
    tenant: &TenantId,
    environment: &EnvironmentId,
) -> Result<Vec<ChainLink>, PortError> {
    let by = By::Newest(tenant, Some(environment), Behind::Nothing);
    let runs = store.find_all::<ProvisioningRun>(by).await?;
    let mut links: Vec<ChainLink> =
        runs.into_iter().flat_map(|r| [r.plan.map(|p| p.link), r.apply.map(|a| a.link)]).flatten().collect();
    links.sort_by_key(|l| l.sequence);
    Ok(links)
}

async fn slot_of(
    store: &Store,
    tenant: &TenantId,
    environment: &EnvironmentId,
) -> Result<Versioned<EnvironmentSlot>, PortError> {
    let slot = Scoped::new(tenant.clone(), environment.clone());
    store.need::<EnvironmentSlot>(&slot).await
}

/// Whether the list of runs doesn't show the chain's newest link yet: a list may lag (Rule 3).
pub async fn list_lags(
    store: &Store,
    tenant: &TenantId,
    environment: &EnvironmentId,
) -> Result<bool, PortError> {
    let head = slot_of(store, tenant, environment).await?.chain.as_ref().map(|head| head.sequence);
    let listed = links(store, tenant, environment).await?.last().map(|link| link.sequence);
    Ok(listed < head)
}

/// Verifies. Links are taken from the store's runs: only committed links count. Their copies beside the blobs are
/// made where they are missing.
pub async fn verify_receipts(
    store: &Store,
    receipts: &dyn Receipts,
    tenant: &TenantId,
    environment: &EnvironmentId,
) -> Result<ChainReport, PortError> {
    let slot = slot_of(store, tenant, environment).await?;
    let head = slot.chain.as_ref().map(|c| (c.sequence, c.digest.clone()));
    let mut links = links(store, tenant, environment).await?;
    // What was committed since the head was read is the next look's.
    links.retain(|link| head.as_ref().is_none_or(|(sequence, _)| link.sequence <= *sequence));
    let mut report = ChainReport { environment_id: environment.clone(), verified: 0, broken: None };
    let mut previous: Option<Digest> = None;
    for some in links.chunks(TOGETHER) {
        let looks = some.iter().map(|link| damage(receipts, tenant, environment, link));
        for (link, damage) in some.iter().zip(futures::future::join_all(looks).await) {
            let expected = report.verified + 1;
            if link.sequence != expected {
                report.broken =
                    Some(format!("link {expected} is missing: the chain goes on with {}", link.sequence));
                return Ok(report);
            }
            let unnamed =
                (link.previous != previous).then(|| "it doesn't name the link before it".to_owned());
            let damage = damage?;
            if let Some(broken) = unnamed.or(damage) {
                report.broken = Some(format!("link {} (run {}): {broken}", link.sequence, link.run));
                return Ok(report);
            }
            previous = Some(link.digest());
            report.verified += 1;
        }
    }
    let end = previous.map(|digest| (report.verified, digest));
    if head != end {
        let shown = |end: Option<(u64, Digest)>| {
            end.map_or("nothing".to_owned(), |(n, d)| format!("{n}/{}", d.short()))
        };
        report.broken = Some(format!("the chain ends at {}, but its head is {}", shown(end), shown(head)));
    }
    Ok(report)
}

/// What is wrong with a link's receipt, or with its copy.
async fn damage(
    receipts: &dyn Receipts,
    tenant: &TenantId,
    environment: &EnvironmentId,
    link: &ChainLink,
) -> Result<Option<String>, PortError> {
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
