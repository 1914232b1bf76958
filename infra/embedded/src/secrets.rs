//! Secrets in files with mode 0600, or from a command, as Git's credential helpers give them. A version is a keyed
//! digest of the value: it changes when the value does, and tells nothing of it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::aggregate::{encode, file_name};
use events::{EnvironmentId, TenantId, is_unshowable};
use hmac::{Hmac, Mac};
use ports::secret_broker::{SecretBroker, SecretValue};
use ports::{Ids, PortError, Secret};
use sha2::Sha256;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// A command that answers `get`: on its standard input `tenant=…` and `ref=…`, on its output `value=…` and, if it
/// knows one, `version=…`. No output: it has no such secret.
#[derive(Debug, Clone)]
pub struct SecretCommand {
    /// The program.
    pub program: PathBuf,
    /// How long it may take; then it is ended, and may be asked again.
    pub limit: Duration,
}

/// Why a secret wasn't set.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Nothing could name it.
    #[error("secret reference {0:?} is empty or contains a control character; give one such as web/password")]
    Reference(String),
    /// The disk says no.
    #[error("secret {reference} can't be written to {path}; it is as it was: see that there is space")]
    Write {
        /// The secret.
        reference: String,
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The broker.
#[derive(Clone)]
pub struct FileSecrets {
    /// The folder, mode 0700.
    pub folder: PathBuf,
    /// Asked where no file is there.
    pub command: Option<SecretCommand>,
    /// Makes passphrases and the key of the versions.
    pub ids: Arc<dyn Ids>,
}

impl FileSecrets {
    fn path(&self, tenant: &TenantId, reference: &str) -> PathBuf {
        self.folder.join("values").join(name(tenant.as_str())).join(name(reference))
    }

    /// Puts a secret into its file.
    pub fn set(&self, tenant: &TenantId, reference: &str, value: &Secret) -> Result<(), SecretError> {
        if reference.trim().is_empty() || is_unshowable(reference) {
            return Err(SecretError::Reference(reference.to_owned()));
        }
        let path = self.path(tenant, reference);
        self.replace(&path, value).map_err(|source| SecretError::Write {
            reference: reference.to_owned(),
            path,
            source,
        })
    }

    fn replace(&self, path: &Path, value: &Secret) -> io::Result<()> {
        let parent = path.parent().ok_or_else(|| io::Error::other("no parent folder"))?;
        let temporary = parent.join(format!(".{}.tmp", self.ids.fresh()));
        let written = create_private(&temporary, value.reveal().as_bytes());
        let renamed = written.and_then(|()| fs::rename(&temporary, path));
        if renamed.is_err() {
            // It may hold a part of the value.
            drop(fs::remove_file(&temporary));
        }
        renamed
    }

    fn random(&self) -> String {
        format!("{}{}", self.ids.fresh().simple(), self.ids.fresh().simple())
    }

    /// Made once: the first who makes it wins.
    fn made_once(&self, path: &Path) -> io::Result<String> {
        loop {
            match read_private(path)? {
                Some(found) => return Ok(found),
                None => {
                    let parent = path.parent().ok_or_else(|| io::Error::other("no parent folder"))?;
                    let temporary = parent.join(format!(".{}.tmp", self.ids.fresh()));
                    let written = create_private(&temporary, self.random().as_bytes());
                    let linked = written.and_then(|()| fs::hard_link(&temporary, path));
                    drop(fs::remove_file(&temporary));
                    match linked {
                        Ok(()) => fs::File::open(parent)?.sync_all()?,
                        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                        Err(e) => return Err(e),
                    }
                }
            }
        }
    }

    fn version(&self, value: &str) -> io::Result<String> {
        let key = self.made_once(&self.folder.join("version-key"))?;
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).map_err(io::Error::other)?;
        mac.update(value.as_bytes());
        let digest = hex::encode(mac.finalize().into_bytes());
        Ok(digest.get(..16).unwrap_or_default().to_owned())
    }

    fn read(&self, tenant: &TenantId, reference: &str) -> io::Result<Option<SecretValue>> {
        let Some(value) = read_private(&self.path(tenant, reference))? else { return Ok(None) };
        Ok(Some(SecretValue { version: self.version(&value)?, value: Secret::new(value) }))
    }

    async fn ask(
        &self,
        command: &SecretCommand,
        tenant: &TenantId,
        reference: &str,
    ) -> io::Result<Option<SecretValue>> {
        let mut child = Command::new(&command.program)
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let answer = async move {
            if let Some(mut stdin) = child.stdin.take() {
                // A helper that doesn't read its input closes it; its answer counts.
                drop(stdin.write_all(format!("tenant={tenant}\nref={reference}\n\n").as_bytes()).await);
            }
            child.wait_with_output().await
        };
        let late = |_| {
            let problem = format!(
                "the secret command {} gave no answer within {} s and was ended; see why it hangs",
                command.program.display(),
                command.limit.as_secs_f32()
            );
            io::Error::new(io::ErrorKind::TimedOut, problem)
        };
        let output = tokio::time::timeout(command.limit, answer).await.map_err(late)??;
        if !output.status.success() {
            return Err(io::Error::other(format!("the secret command ended with {}", output.status)));
        }
        let text =
            String::from_utf8(output.stdout).map_err(|_| io::Error::other("its answer is not UTF-8"))?;
        let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
        let Some(value) = field("value") else { return Ok(None) };
        let version = match field("version") {
            Some(version) => version.to_owned(),
            None => self.version(value)?,
        };
        Ok(Some(SecretValue { version, value: Secret::new(value) }))
    }
}

fn name(part: &str) -> String {
    file_name(&encode(part))
}

fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or_else(|| io::Error::other("no parent folder"))?;
    fs::create_dir_all(parent)?;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads a file that only its owner may read; refuses one that others may.
fn read_private(path: &Path) -> io::Result<Option<String>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    if metadata.mode() & 0o077 != 0 {
        let problem = format!("{} may be read by others; run `chmod 600` on it", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    fs::read_to_string(path).map(Some)
}

fn fault(error: io::Error) -> PortError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return PortError::broken_by(
            format!("a secret can't be used: {error}"),
            "correct it and try again",
            error,
        );
    }
    PortError::unavailable("the Secret Broker", error)
}

#[async_trait]
impl SecretBroker for FileSecrets {
    async fn resolve(&self, tenant: &TenantId, reference: &str) -> Result<Option<SecretValue>, PortError> {
        // The command speaks in lines: a second one would be a field of its own.
        if is_unshowable(reference) {
            let what = format!("secret reference {reference:?} contains a control character");
            return Err(PortError::broken(what, "remove it"));
        }
        let (this, tenant, reference) = (self.clone(), tenant.clone(), reference.to_owned());
        let (owner, wanted) = (tenant.clone(), reference.clone());
        let read = tokio::task::spawn_blocking(move || this.read(&owner, &wanted));
        let found = read.await.map_err(|e| PortError::unavailable("the Secret Broker", e))?.map_err(fault)?;
        match (&found, &self.command) {
            (None, Some(command)) => self.ask(command, &tenant, &reference).await.map_err(fault),
            (Some(_), _) | (None, None) => Ok(found),
        }
    }

    async fn passphrase(
        &self,
        tenant: &TenantId,
        environment: &EnvironmentId,
        may_make: bool,
    ) -> Result<Secret, PortError> {
        let file =
            self.folder.join("passphrases").join(name(tenant.as_str())).join(name(environment.as_str()));
        let (this, path) = (self.clone(), file.clone());
        let found = tokio::task::spawn_blocking(move || {
            if !may_make {
                return read_private(&path);
            }
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            this.made_once(&path).map(Some)
        });
        let found =
            found.await.map_err(|e| PortError::unavailable("the Secret Broker", e))?.map_err(fault)?;
        found.map(Secret::new).ok_or_else(|| {
            PortError::broken(
                format!("the passphrase of environment {environment} is missing, and its state is encrypted with it"),
                format!("restore {} from a backup, then run again", file.display()),
            )
        })
    }
}
