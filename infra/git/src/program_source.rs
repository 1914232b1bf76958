//! Git as the port that the application sees. A tenant's credential for a repository is its secret
//! `git:<host of the repository>`, as `user:token`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use events::{CommitHash, Program, TenantId};
use ports::program_source::Checkout;
use ports::{Clock, PortError, ProgramSource, SecretBroker};

use crate::{Credential, GitError, GitSource};

/// Programs in Git.
pub struct GitPrograms {
    /// Git.
    pub source: GitSource,
    /// Credentials.
    pub secrets: Arc<dyn SecretBroker>,
    /// Deadlines.
    pub clock: Arc<dyn Clock>,
}

/// How long resolving a reference may take.
const RESOLVE: Duration = Duration::from_secs(30);

impl GitPrograms {
    async fn credential(&self, tenant: &TenantId, repository: &str) -> Result<Option<Credential>, PortError> {
        let Some((_, rest)) = repository.split_once("https://") else { return Ok(None) };
        let host = rest.split('/').next().unwrap_or_default();
        let Some(secret) = self.secrets.resolve(tenant, &format!("git:{host}")).await? else {
            return Ok(None);
        };
        let (username, password) = secret.value.reveal().split_once(':').ok_or_else(|| {
            PortError::broken(format!("secret git:{host} is no `user:token`"), "store it in that form")
        })?;
        Ok(Some(Credential::new(username, password)))
    }
}

fn fault(error: GitError) -> PortError {
    if error.is_retryable() {
        PortError::unavailable("the repository", error)
    } else {
        // Each says what is wrong, then what helps.
        let text = error.to_string();
        let (what, hint) = text.rsplit_once("; ").unwrap_or((&text, "correct it and try again"));
        PortError::broken(what, hint)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, PortError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(fault),
        Err(e) => Err(PortError::unavailable("Git", e)),
    }
}

#[async_trait]
impl ProgramSource for GitPrograms {
    async fn resolve(
        &self,
        tenant: &TenantId,
        repository: &str,
        reference: &str,
    ) -> Result<CommitHash, PortError> {
        let credential = self.credential(tenant, repository).await?;
        let source = self.source.of(tenant.as_str());
        let (repository, reference) = (repository.to_owned(), reference.to_owned());
        let resolve =
            move || source.resolve(&repository, &reference, credential.as_ref(), Instant::now() + RESOLVE);
        let hash = blocking(resolve).await?;
        CommitHash::new(hash).map_err(|e| PortError::broken_by("Git gave no full commit", "report this", e))
    }

    async fn checkout(
        &self,
        tenant: &TenantId,
        program: &Program,
        to: &Path,
        deadline: DateTime<Utc>,
    ) -> Result<Checkout, PortError> {
        let credential = self.credential(tenant, &program.repository).await?;
        let source = self.source.of(tenant.as_str());
        let left = (deadline - self.clock.now()).to_std().unwrap_or_default();
        let (program, to) = (program.clone(), to.to_owned());
        let checkout = move || {
            let deadline = Instant::now() + left;
            let (repository, commit) = (&program.repository, program.commit.as_str());
            source.checkout(repository, commit, &program.path, &to, credential.as_ref(), deadline)
        };
        let checkout = blocking(checkout).await?;
        Ok(Checkout { root: checkout.dir, program: checkout.program_dir })
    }
}
