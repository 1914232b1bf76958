//! Online backups of the store's file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ports::PortError;
use rusqlite::Connection;

use crate::database::Database;

/// Backups of a database.
#[derive(Clone)]
pub struct Backup(pub Database);

impl Backup {
    /// Copies the store as it is now, while it is in use, to a new file.
    pub async fn to(&self, file: &Path) -> Result<(), PortError> {
        let (source, file) = (self.0.path().to_owned(), file.to_owned());
        let copied = tokio::task::spawn_blocking(move || copy(&source, &file)).await;
        let fault = |e: rusqlite::Error| PortError::unavailable("the backup", e);
        copied.map_err(|e| PortError::unavailable("the backup", e))?.map_err(fault)
    }
}

fn copy(source: &Path, file: &Path) -> rusqlite::Result<()> {
    let part = file.with_extension("part");
    {
        let source = Connection::open(source)?;
        let mut target = Connection::open(&part)?;
        let backup = rusqlite::backup::Backup::new(&source, &mut target)?;
        // In one step: a write between two steps would make it begin anew, and a busy store never ends writing. The
        // step reads one state and is in no writer's way.
        backup.run_to_completion(i32::MAX, Duration::from_millis(1), None)?;
    }
    let io = |e: std::io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(e));
    std::fs::File::open(&part).and_then(|f| f.sync_all()).map_err(io)?;
    std::fs::rename(&part, file).map_err(io)
}

/// Removes the oldest backups of a folder beyond `kept`.
pub fn prune(folder: &Path, kept: usize) -> std::io::Result<()> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "sqlite"))
        .collect();
    files.sort();
    let old = files.len().saturating_sub(kept);
    files.iter().take(old).try_for_each(std::fs::remove_file)
}
