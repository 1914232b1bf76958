//! What the identity of an environment gives its runs: known where a run works, and nowhere else.

use domain::identity::Identity;
use domain::provisioning_run::{Failure, FailureReason};
use ports::PortError;
use ports::runner::Job;

use crate::redact::Redactor;
use crate::runner::{HostRunner, NotStarted, later};

impl HostRunner {
    /// The job with what its identity gives it. A role's credentials come with the job, or not at all.
    pub(crate) async fn with_access(&self, job: &Job) -> Result<Job, NotStarted> {
        let mut job = job.clone();
        let Some(reference) = job.identity.clone() else { return Ok(job) };
        let failed =
            |message: String| NotStarted::Never(Failure { reason: FailureReason::PlanFailed, message });
        match Identity::parse(&reference).map_err(|e| failed(e.to_string()))? {
            Identity::Role(_) | Identity::OwnRole(_) if job.access.variables.is_empty() => {
                return Err(failed(format!(
                    "identity {reference} is a role, which is assumed on AWS alone: leave it out here, and name the \
                     variables of its credentials in passEnvironment"
                )));
            }
            Identity::Role(_) | Identity::OwnRole(_) => {}
            Identity::Kubeconfig(secret) => {
                let found = self.secrets.resolve(&job.tenant, secret).await.map_err(later)?;
                let missing =
                    || failed(format!("identity {reference}: there is no secret {secret}; store it"));
                let found = found.ok_or_else(missing)?;
                job.access.files.insert("KUBECONFIG".to_owned(), found.value);
            }
        }
        Ok(job)
    }

    /// Masks what the identity of a job gives it.
    pub(crate) async fn access_redactor(&self, job: &Job) -> Result<Redactor, PortError> {
        let access = self.known_access(job).await?.access;
        Ok(Redactor::new(access.variables.values().chain(access.files.values()).map(|s| s.reveal())))
    }

    /// The same where its end is looked at: there it is only masked with.
    pub(crate) async fn known_access(&self, job: &Job) -> Result<Job, PortError> {
        match self.with_access(job).await {
            Ok(job) => Ok(job),
            Err(NotStarted::Later(e)) => Err(e),
            Err(NotStarted::Never(_)) => Ok(job.clone()),
        }
    }
}
