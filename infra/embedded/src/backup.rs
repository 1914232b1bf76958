//! Online backups of the store's file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ports::PortError;
use rusqlite::Connection;

use crate::database::{Database, DatabaseError};

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
    let copied = copy_to(source, &part, file);
    if copied.is_err() {
        // A part of a backup is of no use, and takes space.
        drop(fs::remove_file(&part));
    }
    copied
}

fn copy_to(source: &Path, part: &Path, file: &Path) -> rusqlite::Result<()> {
    {
        let source = Connection::open(source)?;
        let mut target = Connection::open(part)?;
        let backup = rusqlite::backup::Backup::new(&source, &mut target)?;
        // In one step: a write between two steps would make it begin anew, and a busy store never ends writing. The
        // step reads one state and is in no writer's way.
        backup.run_to_completion(i32::MAX, Duration::from_millis(1), None)?;
    }
    let io = |e: io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(e));
    fs::File::open(part).and_then(|f| f.sync_all()).map_err(io)?;
    fs::rename(part, file).map_err(io)
}

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It is no file that could be read.
    #[error("{path} can't be restored: {problem}; give the file of a backup, as in the folder backups/")]
    NoFile {
        /// What was given.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// It is no store, or a damaged one.
    #[error("{path} can't be restored; give another backup, as in the folder backups/")]
    NoStore {
        /// What was given.
        path: PathBuf,
        /// Why.
        source: Box<DatabaseError>,
    },
    /// The data folder.
    #[error("{path} can't be written; see that there is space and that you may write there")]
    Folder {
        /// What was to be written.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What SQLite keeps beside a file.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// A backup that was copied into the data folder and checked: it can take the store's place.
#[derive(Debug)]
pub struct Checked(PathBuf);

impl Checked {
    /// Refuses what can't be a backup.
    pub fn look(file: &Path) -> Result<(), RestoreError> {
        let no_file = |problem: String| RestoreError::NoFile { path: file.to_owned(), problem };
        match fs::metadata(file) {
            Err(e) => Err(no_file(e.to_string())),
            Ok(found) if !found.is_file() => Err(no_file("it is no file".to_owned())),
            Ok(found) if found.len() == 0 => Err(no_file("it is empty".to_owned())),
            Ok(_) => Ok(()),
        }
    }

    /// Copies a backup to `to` and checks the copy. What is no store leaves nothing behind.
    pub fn copy(file: &Path, to: PathBuf) -> Result<Checked, RestoreError> {
        Checked::look(file)?;
        // It removes what it holds when it goes.
        let checked = Checked(to);
        let to = &checked.0;
        let at = |source| RestoreError::Folder { path: to.clone(), source };
        fs::copy(file, to).map_err(at)?;
        // A store that was copied while it was in use has its last writes beside it.
        let log = beside(file, "-wal");
        if log.is_file() {
            fs::copy(log, beside(to, "-wal")).map_err(at)?;
        }
        Database::check(to, file)
            .map_err(|e| RestoreError::NoStore { path: file.to_owned(), source: Box::new(e) })?;
        fs::File::open(to).and_then(|f| f.sync_all()).map_err(at)?;
        Ok(checked)
    }

    /// Puts it in the place of the store, which nobody may have open. The one that was there is kept as `kept`, with
    /// the writes that are only in its log; false where none was there.
    pub fn replace(self, store: &Path, kept: &Path) -> Result<bool, RestoreError> {
        let there = store.exists();
        if there {
            // A damaged store keeps its log as it is.
            if let Err(e) = Database::fold(store) {
                tracing::warn!(error = %e, "the store that is replaced is not sound; it is kept as it is");
            }
            keep(store, kept)?;
        }
        // Not left for the new one, whose writes they aren't. Where the old one was sound, there are none.
        for end in BESIDE {
            let log = beside(store, end);
            if log.exists() {
                rename(&log, &beside(kept, end))?;
            }
        }
        rename(&self.0, store)?;
        let folder = store.parent().unwrap_or(store);
        let at = |source| RestoreError::Folder { path: folder.to_owned(), source };
        fs::File::open(folder).and_then(|f| f.sync_all()).map_err(at)?;
        Ok(there)
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
        for end in BESIDE {
            drop(fs::remove_file(beside(&self.0, end)));
        }
    }
}

/// Keeps a file under a second name; the first stays until something takes its place, so that there is always one.
fn keep(file: &Path, kept: &Path) -> Result<(), RestoreError> {
    let linked = fs::hard_link(file, kept).or_else(|_| {
        // Not every file system has links.
        fs::copy(file, kept)?;
        fs::File::open(kept)?.sync_all()
    });
    linked.map_err(|source| {
        drop(fs::remove_file(kept));
        RestoreError::Folder { path: kept.to_owned(), source }
    })
}

fn rename(from: &Path, to: &Path) -> Result<(), RestoreError> {
    fs::rename(from, to).map_err(|source| RestoreError::Folder { path: to.to_owned(), source })
}

/// Removes the oldest backups of a folder beyond `kept`; the newest always stays.
pub fn prune(folder: &Path, kept: usize) -> io::Result<()> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "sqlite"))
        .collect();
    files.sort();
    let old = files.len().saturating_sub(kept.max(1));
    files.iter().take(old).try_for_each(fs::remove_file)
}
