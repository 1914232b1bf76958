//! Programs in Git.

use std::path::PathBuf;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use events::{CommitHash, Program, TenantId};

use crate::error::PortError;

/// A checked-out program, for one run.
#[derive(Debug, Clone)]
pub struct Checkout {
    /// The worktree.
    pub root: PathBuf,
    /// The program's folder in it.
    pub program: PathBuf,
}

/// Resolves references and checks programs out.
#[async_trait]
pub trait ProgramSource: Send + Sync {
    /// The full commit that a branch, tag or commit names now.
    async fn resolve(
        &self,
        tenant: &TenantId,
        repository: &str,
        reference: &str,
    ) -> Result<CommitHash, PortError>;
    /// Checks a commit out into a folder that is the caller's own. Twice is once.
    async fn checkout(
        &self,
        tenant: &TenantId,
        program: &Program,
        to: &std::path::Path,
        deadline: DateTime<Utc>,
    ) -> Result<Checkout, PortError>;
}
