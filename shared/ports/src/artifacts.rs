//! Logs, plan files and states, named by their digest.

use async_trait::async_trait;
use domain::Digest;

use crate::error::PortError;

/// Blobs by digest.
#[async_trait]
pub trait Artifacts: Send + Sync {
    /// Keeps bytes; the same bytes twice are one. Where other bytes stand under their name, the right ones replace them.
    async fn put(&self, bytes: &[u8]) -> Result<Digest, PortError>;
    /// Reads bytes and checks them against their name; None where nothing is there.
    async fn get(&self, digest: &Digest) -> Result<Option<Vec<u8>>, PortError>;
}
