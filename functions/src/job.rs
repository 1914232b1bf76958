//! A runner's work on one job: with the credentials of that job alone, in a sandbox that holds nothing else before and
//! after.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use aws::{JobCredentials, JobKeys, S3Artifacts, S3Receipts, SecretNames, SecretsManagerBroker};
use chrono::{DateTime, Utc};
use git::{GitPrograms, GitSource, Limits};
use ports::runner::Access;
use ports::runner_place::JobName;
use ports::{PortError, Secret};
use process::Sandbox;
use pulumi::{HostRunner, HostRunnerSettings, ToolBox, Work, work};

use crate::door::{DoorError, RandomIds, SystemClock, optional, variable};
use crate::tools::{Installed, Manifest, install};
use crate::wiring::Account;

const GRACE: Duration = Duration::from_secs(20);
const OUTPUT_LIMIT: u64 = 50 * 1024 * 1024;

/// A runner in its sandbox.
pub struct JobRunner {
    account: Account,
    sandbox: Arc<Sandbox>,
    artifacts: S3Artifacts,
    manifest: Manifest,
}

/// A job, and who works on it until when.
pub struct Given<'a> {
    /// The job.
    pub name: &'a JobName,
    /// What it may use.
    pub keys: &'a JobKeys,
    /// A name that the job's place knows.
    pub worker: String,
    /// When the place ends this.
    pub place_ends: DateTime<Utc>,
    /// Set when the place says that it ends before.
    pub stopped: Arc<AtomicBool>,
}

impl JobRunner {
    /// Takes the sandbox, and brings the tools.
    pub async fn begin(account: Account) -> Result<JobRunner, DoorError> {
        let sandbox = Arc::new(Sandbox::take().map_err(disk)?);
        let artifacts = account.tools()?;
        let manifest = Manifest::read(&artifacts, &variable("RUNTIME_CLOUD_TOOLS")?).await?;
        install(&artifacts, &manifest, &tools_folder()).await?;
        Ok(JobRunner { account, sandbox, artifacts, manifest })
    }

    /// The account, with the runner's own role.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Does a job. False where somebody else does it, or did.
    pub async fn run(&self, given: Given<'_>) -> Result<bool, PortError> {
        self.cleared().await;
        // Verified before each use: the job before this one ran on the same disk.
        let tools = install(&self.artifacts, &self.manifest, &tools_folder()).await?;
        let done = self.work(tools, given).await;
        self.cleared().await;
        done
    }

    /// Clears the sandbox, or leaves it: what an earlier job has left there is in no other one's.
    async fn cleared(&self) {
        if let Err(e) = self.clear().await {
            tracing::error!(error = %e.chain(), "the sandbox can't be cleared, and is given up");
            std::process::exit(1);
        }
    }

    /// Ends every process that a job has started, and wipes its disk.
    async fn clear(&self) -> Result<(), PortError> {
        let sandbox = Arc::clone(&self.sandbox);
        let cleared = tokio::task::spawn_blocking(move || {
            let killed = sandbox.clear()?;
            wipe(&data(), optional("RUNTIME_CLOUD_OWN_DISK").as_deref().map(Path::new), &tools_folder())?;
            Ok::<_, std::io::Error>(killed)
        });
        let killed = cleared.await.map_err(|e| PortError::unavailable("this runner", e))?.map_err(disk)?;
        if killed > 0 {
            tracing::warn!(killed, "processes of a job were left, and were ended");
        }
        Ok(())
    }

    async fn work(&self, tools: Installed, given: Given<'_>) -> Result<bool, PortError> {
        let data = data();
        std::fs::create_dir_all(&data).map_err(disk)?;
        std::os::unix::fs::symlink(&tools.plugins, data.join("plugins")).map_err(disk)?;
        let missing = |e: DoorError| PortError::broken(e.to_string(), "deploy the stack again");
        let clients = self.account.clients.of_job(&given.keys.own);
        let secrets = Arc::new(SecretsManagerBroker {
            client: clients.secrets_manager(),
            names: SecretNames(variable("RUNTIME_CLOUD_SECRETS").map_err(missing)?),
            ids: Arc::new(RandomIds),
        });
        let files = S3Receipts {
            client: clients.s3(),
            bucket: variable("RUNTIME_CLOUD_JOBS_BUCKET").map_err(missing)?,
        };
        let region = optional("AWS_REGION").map(|region| ("AWS_REGION".to_owned(), region));
        let host = HostRunner {
            settings: HostRunnerSettings {
                data: data.clone(),
                program: std::env::current_exe().map_err(disk)?,
                local_provider: tools.local,
                local_version: env!("CARGO_PKG_VERSION").to_owned(),
                path: "/usr/bin:/bin".to_owned(),
                environment: region.into_iter().collect(),
                grace: GRACE,
                output_limit: OUTPUT_LIMIT,
            },
            tools: ToolBox::having(tools.tools),
            programs: Arc::new(GitPrograms {
                source: GitSource::new(data.join("git"), Limits::default()),
                secrets: secrets.clone(),
                clock: Arc::new(SystemClock),
            }),
            secrets: secrets.clone(),
        };
        let this = Work {
            host: &host,
            files: &files,
            secrets: &*secrets,
            clock: &SystemClock,
            worker: given.worker,
            ends_by: given.place_ends.max(given.keys.end_at()),
            until: given.place_ends.min(given.keys.own.expires_at),
            tools: self.manifest.digests(),
            access: access(given.keys.identity.as_ref()),
            stopped: &given.stopped,
        };
        work(&this, given.name).await
    }
}

/// What a role gives to a program, by the names that AWS's own tools look for.
fn access(identity: Option<&JobCredentials>) -> Access {
    let Some(identity) = identity else { return Access::default() };
    let variables = [
        ("AWS_ACCESS_KEY_ID", &identity.access_key_id),
        ("AWS_SECRET_ACCESS_KEY", &identity.secret_access_key),
        ("AWS_SESSION_TOKEN", &identity.session_token),
    ];
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), Secret::new(value)));
    Access { variables: variables.collect(), files: BTreeMap::new() }
}

fn disk(error: std::io::Error) -> PortError {
    PortError::unavailable("this runner's disk", error)
}

/// What outlives a job: verified tools.
fn tools_folder() -> PathBuf {
    std::env::temp_dir().join("runtime-cloud-tools")
}

/// A job's own, and this sandbox's: an emulator runs several on one disk, each with a log stream of its own.
fn data() -> PathBuf {
    let sandbox = optional("AWS_LAMBDA_LOG_STREAM_NAME").unwrap_or_default();
    std::env::temp_dir().join(format!("runtime-cloud-job-{}", domain::Digest::of(sandbox.as_bytes()).short()))
}

/// Removes the job's own folder; and everything else that a job may have written, where the disk is the sandbox's own.
fn wipe(job: &Path, own_disk: Option<&Path>, tools: &Path) -> Result<(), std::io::Error> {
    remove(job)?;
    let Some(disk) = own_disk else { return Ok(()) };
    for entry in std::fs::read_dir(disk)? {
        let path = entry?.path();
        if path != tools {
            remove(&path)?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), std::io::Error> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => std::fs::remove_dir_all(path).or_else(|_| {
            // A job may have closed its folders, as caches of modules do.
            open_folders(path)?;
            std::fs::remove_dir_all(path)
        }),
        Ok(_) => std::fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lets everything below a folder be removed.
fn open_folders(folder: &Path) -> Result<(), std::io::Error> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_of_its_own_keeps_tools_alone_and_a_shared_one_loses_the_job_alone() {
        let disk = tempfile::tempdir().unwrap();
        let (job, tools) = (disk.path().join("job"), disk.path().join("tools"));
        let outside = tempfile::tempdir().unwrap();
        let fill = || {
            for folder in [&job, &tools, &disk.path().join("left/deep")] {
                std::fs::create_dir_all(folder).unwrap();
                std::fs::write(folder.join("file"), b"x").unwrap();
            }
            drop(std::os::unix::fs::symlink(outside.path(), disk.path().join("link")));
        };
        std::fs::write(outside.path().join("file"), b"x").unwrap();
        fill();
        wipe(&job, None, &tools).unwrap();
        assert!(!job.exists() && disk.path().join("left").exists() && tools.join("file").exists());
        fill();
        wipe(&job, Some(disk.path()), &tools).unwrap();
        let left: Vec<_> = std::fs::read_dir(disk.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, std::slice::from_ref(&tools));
        // What a link leads to is another's.
        assert!(tools.join("file").exists() && outside.path().join("file").exists());
    }

    #[test]
    fn a_role_reaches_a_run_by_the_variables_that_aws_s_tools_read() {
        let credentials = |n: &str| JobCredentials {
            access_key_id: format!("id{n}"),
            secret_access_key: format!("key{n}"),
            session_token: format!("session{n}"),
            expires_at: DateTime::UNIX_EPOCH,
        };
        let given = access(Some(&credentials("1")));
        let names: Vec<_> = given.variables.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect();
        assert_eq!(
            names,
            [
                ("AWS_ACCESS_KEY_ID", "id1"),
                ("AWS_SECRET_ACCESS_KEY", "key1"),
                ("AWS_SESSION_TOKEN", "session1")
            ]
        );
        assert!(access(None).variables.is_empty());
    }
}
