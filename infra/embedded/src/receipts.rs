//! Receipts on disk: write-once, read-only.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use domain::aggregate::file_name;
use ports::receipts::check_key;
use ports::{Ids, PortError, Put, Receipts};

use crate::disk;

/// Receipts below a folder.
#[derive(Clone)]
pub struct DiskReceipts {
    /// The folder.
    pub folder: PathBuf,
    /// Names of temporary files.
    pub ids: Arc<dyn Ids>,
}

impl DiskReceipts {
    fn path(&self, key: &str) -> Result<PathBuf, PortError> {
        check_key(key)?;
        Ok(key.split('/').fold(self.folder.clone(), |path, part| path.join(file_name(part))))
    }
}

#[async_trait]
impl Receipts for DiskReceipts {
    async fn put_once(&self, key: &str, bytes: &[u8]) -> Result<Put, PortError> {
        let path = self.path(key)?;
        let (bytes, unique) = (bytes.to_vec(), self.ids.fresh().to_string());
        blocking(move || disk::put_once(&path, &bytes, 0o400, &unique)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        let path = self.path(key)?;
        blocking(move || disk::get(&path)).await
    }

    async fn list(&self, folder: &str) -> Result<Vec<String>, PortError> {
        let (root, folder) = (self.path(folder)?, folder.to_owned());
        blocking(move || disk::list(&root, &folder)).await
    }
}

/// Runs file work where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, PortError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(PortError::unavailable("the data folder", e)),
        Err(e) => Err(PortError::unavailable("the data folder", e)),
    }
}
