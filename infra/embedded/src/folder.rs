//! The data folder: one host at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another host has it.
    #[error("another host (pid {pid}) works on {folder}; stop it first, or give another folder with --data")]
    Taken {
        /// The folder.
        folder: PathBuf,
        /// The other's pid.
        pid: String,
    },
    /// The file system says no.
    #[error("{folder} can't be used as a data folder; {}", hint(.source))]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::StorageFull => "its disk is full: free some space",
        _ => "choose one that you may write with --data",
    }
}

/// A folder that this process has locked. The lock goes with the process.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder, mode 0700, and locks it.
    pub fn lock(path: &Path) -> Result<DataFolder, FolderError> {
        let at = |source| FolderError::Io { folder: path.to_owned(), source };
        for part in ["", "receipts", "artifacts", "secrets", "sessions", "backups", "git", "local"] {
            let folder = path.join(part);
            fs::create_dir_all(&folder).map_err(at)?;
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).map_err(at)?;
        }
        let file = path.join("host.lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)
            .map_err(at)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut pid = String::new();
                lock.read_to_string(&mut pid).map_err(at)?;
                return Err(FolderError::Taken { folder: path.to_owned(), pid: pid.trim().to_owned() });
            }
            Err(fs::TryLockError::Error(e)) => return Err(at(e)),
        }
        lock.set_len(0).map_err(at)?;
        lock.rewind().map_err(at)?;
        lock.write_all(std::process::id().to_string().as_bytes()).map_err(at)?;
        Ok(DataFolder { path: path.to_owned(), _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
