//! What was committed and has not left yet.

use async_trait::async_trait;
use uuid::Uuid;

use crate::commit::Letter;
use crate::error::PortError;

/// Letters of committed rows, in the order of their commits.
#[async_trait]
pub trait Letters: Send + Sync {
    /// The oldest that haven't left.
    async fn pending(&self, limit: u32) -> Result<Vec<Letter>, PortError>;
    /// They have left.
    async fn sent(&self, ids: &[Uuid]) -> Result<(), PortError>;
    /// A letter that can't be forwarded is put aside with its reason, so that the ones behind it go on.
    async fn park(&self, id: Uuid, reason: &str) -> Result<(), PortError>;
    /// Waits until there may be some.
    async fn wait(&self);
}
