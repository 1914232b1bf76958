//! Artifacts on disk, named by their digest and checked against it.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use domain::Digest;
use ports::{Artifacts, Ids, PortError, Put};

use crate::disk;
use crate::receipts::blocking;

/// Artifacts below a folder.
#[derive(Clone)]
pub struct DiskArtifacts {
    /// The folder.
    pub folder: PathBuf,
    /// Names of temporary files.
    pub ids: Arc<dyn Ids>,
}

impl DiskArtifacts {
    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.as_str().get(..2).unwrap_or("00")).join(digest.as_str())
    }
}

#[async_trait]
impl Artifacts for DiskArtifacts {
    async fn put(&self, bytes: &[u8]) -> Result<Digest, PortError> {
        let digest = Digest::of(bytes);
        let (path, bytes, unique) = (self.path(&digest), bytes.to_vec(), self.ids.fresh().to_string());
        let name = digest.clone();
        blocking(move || {
            if disk::put_once(&path, &bytes, 0o600, &unique)? == Put::Different {
                // The name tells what belongs there, and that is what was brought.
                tracing::warn!(artifact = %name, "an artifact was changed on disk; the right bytes are put in its place");
                disk::replace(&path, &bytes, 0o600, &unique)?;
            }
            Ok(())
        })
        .await?;
        Ok(digest)
    }

    async fn get(&self, digest: &Digest) -> Result<Option<Vec<u8>>, PortError> {
        let path = self.path(digest);
        let Some(bytes) = blocking(move || disk::get(&path)).await? else { return Ok(None) };
        if Digest::of(&bytes) != *digest {
            return Err(damaged(digest));
        }
        Ok(Some(bytes))
    }
}

fn damaged(digest: &Digest) -> PortError {
    PortError::broken(format!("artifact {digest} was changed on disk"), "restore it from a backup")
}
