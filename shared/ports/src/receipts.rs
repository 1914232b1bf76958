//! Records that are written once and never again.

use async_trait::async_trait;
use domain::receipt::ChainLink;

use crate::error::PortError;

/// What a write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is there now.
    Created,
    /// The same bytes were there already.
    Same,
    /// Other bytes were there already; they stand.
    Different,
}

/// Write-once blobs by key. Keys are paths of percent-encoded parts.
#[async_trait]
pub trait Receipts: Send + Sync {
    /// Writes if nothing is there.
    async fn put_once(&self, key: &str, bytes: &[u8]) -> Result<Put, PortError>;
    /// Reads; None where nothing is there.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError>;
    /// Keys that begin with a folder, sorted: for recovery, which believes nothing else.
    async fn list(&self, folder: &str) -> Result<Vec<String>, PortError>;
}

/// Refuses a key that no part of the product makes: every adapter is equally strict.
pub fn check_key(key: &str) -> Result<(), PortError> {
    // A dot stands only in a name that was shortened, which a listing gives back.
    let plain = |p: &str| {
        !p.is_empty()
            && !p.starts_with('.')
            && p.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'%' | b'.'))
    };
    if key.split('/').all(plain) {
        return Ok(());
    }
    Err(PortError::broken(format!("receipt key {key:?} is malformed"), "percent-encode its parts"))
}

/// Key of a receipt's blob.
pub fn blob_key(digest: &domain::Digest) -> String {
    format!("blobs/{digest}")
}

/// Key of a run's record: `intent` or `outcome`.
pub fn run_key(tenant: &events::TenantId, run: events::ProvisioningRunId, what: &str) -> String {
    format!("runs/{}/{run}/{what}", domain::aggregate::encode(tenant.as_str()))
}

/// Key of a chain link's copy.
pub fn chain_key(tenant: &events::TenantId, environment: &events::EnvironmentId, link: &ChainLink) -> String {
    let tenant = domain::aggregate::encode(tenant.as_str());
    let environment = domain::aggregate::encode(environment.as_str());
    format!("chains/{tenant}/{environment}/{:04}-{:010}", link.epoch, link.sequence)
}

/// Copies a committed link beside the blobs. Twice is once; a copy that says something else stands.
pub async fn copy_link(
    receipts: &dyn Receipts,
    tenant: &events::TenantId,
    environment: &events::EnvironmentId,
    link: &ChainLink,
) -> Result<Put, PortError> {
    let copy = serde_json::to_vec(link).map_err(|e| PortError::broken_by("a link", "report this", e))?;
    receipts.put_once(&chain_key(tenant, environment, link), &copy).await
}
