//! Walks an environment's chain of receipts and names the first break.

use domain::aggregate::Scoped;
use domain::receipt::ChainLink;
use domain::{Digest, EnvironmentSlot, ProvisioningRun};
use events::{EnvironmentId, TenantId};
use ports::receipts::{blob_key, chain_key, copy_link};
use ports::rows::{Behind, By};
use ports::{PortError, Put, Receipts, Store};
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

/// An environment's chain as the store has it: only what was committed counts.
pub struct Chain {
    tenant: TenantId,
    environment: EnvironmentId,
    head: Option<(u64, Digest)>,
    links: Vec<ChainLink>,
}

impl Chain {
    /// Reads it.
    pub async fn load(
        store: &Store,
        tenant: &TenantId,
        environment: &EnvironmentId,
    ) -> Result<Chain, PortError> {
        let slot = Scoped::new(tenant.clone(), environment.clone());
        let slot = store.need::<EnvironmentSlot>(&slot).await?;
        let head = slot.chain.as_ref().map(|c| (c.sequence, c.digest.clone()));
        let by = By::Newest(tenant, Some(environment), Behind::Nothing);
        let runs = store.find_all::<ProvisioningRun>(by).await?;
        let links = runs.into_iter().flat_map(|r| [r.plan.map(|p| p.link), r.apply.map(|a| a.link)]);
        // What was committed since the head was read is the next look's.
        let known = |link: &ChainLink| head.as_ref().is_none_or(|(sequence, _)| link.sequence <= *sequence);
        let mut links: Vec<ChainLink> = links.flatten().filter(known).collect();
        links.sort_by_key(|l| l.sequence);
        Ok(Chain { tenant: tenant.clone(), environment: environment.clone(), head, links })
    }

    /// Whether the list of runs doesn't show the newest link yet: a list may lag (Rule 3).
    pub fn lags(&self) -> bool {
        self.links.last().map(|link| link.sequence) < self.head.as_ref().map(|(sequence, _)| *sequence)
    }

    /// Verifies it. The links' copies beside the blobs are made where they are missing.
    pub async fn verify(&self, receipts: &dyn Receipts) -> Result<ChainReport, PortError> {
        let mut report = ChainReport { environment_id: self.environment.clone(), verified: 0, broken: None };
        let mut previous: Option<Digest> = None;
        for some in self.links.chunks(TOGETHER) {
            let looks = some.iter().map(|link| self.damage(receipts, link));
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
        if self.head != end {
            let shown = |end: &Option<(u64, Digest)>| {
                end.as_ref().map_or("nothing".to_owned(), |(n, d)| format!("{n}/{}", d.short()))
            };
            let (end, head) = (shown(&end), shown(&self.head));
            report.broken = Some(format!("the chain ends at {end}, but its head is {head}"));
        }
        Ok(report)
    }

    /// What is wrong with a link's receipt, or with its copy.
    async fn damage(&self, receipts: &dyn Receipts, link: &ChainLink) -> Result<Option<String>, PortError> {
        match receipts.get(&blob_key(&link.receipt)).await? {
            None => return Ok(Some(format!("receipt {} is missing", link.receipt))),
            Some(bytes) if Digest::of(&bytes) != link.receipt => {
                return Ok(Some(format!("receipt {} was changed", link.receipt)));
            }
            Some(_) => {}
        }
        match copy_link(receipts, &self.tenant, &self.environment, link).await? {
            Put::Created | Put::Same => Ok(None),
            Put::Different => {
                let key = chain_key(&self.tenant, &self.environment, link);
                Ok(Some(format!("its copy {key} was changed")))
            }
        }
    }
}
