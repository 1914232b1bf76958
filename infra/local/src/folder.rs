//! One resource's own folder: its lock, and the record in it.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::LocalError;
use crate::root::create_private;

/// How long one provider process waits for another that holds the same resource.
const PATIENCE: Duration = Duration::from_secs(300);

/// Set when the engine asks to stop, or is gone: waiting ends, work begun is finished.
#[derive(Debug, Default)]
pub(crate) struct Cancel(AtomicBool);

impl Cancel {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A folder that this process alone works in until the value is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    // A child has a copy until it execs, so nobody gets the lock before its marker can be seen.
    _lock: File,
}

impl Folder {
    /// Creates the folder if need be and locks it.
    pub(crate) fn create(path: &Path, name: &str, cancel: &Cancel) -> Result<Self, LocalError> {
        loop {
            create_private(path)?;
            if let Some(folder) = Self::open(path, name, cancel)? {
                return Ok(folder);
            }
        }
    }

    /// Locks the folder; none when there is no such folder.
    pub(crate) fn open(path: &Path, name: &str, cancel: &Cancel) -> Result<Option<Self>, LocalError> {
        let started = Instant::now();
        loop {
            let lock = match File::open(path) {
                Ok(lock) => lock,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(LocalError::io("open", path)(error)),
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                // The folder may have been deleted, or made anew, while we waited for the lock.
                Ok(()) if same(&lock, path) => return Ok(Some(Self { path: path.to_owned(), _lock: lock })),
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                    if cancel.is_set() {
                        return Err(LocalError::Cancelled);
                    }
                    if started.elapsed() > PATIENCE {
                        return Err(LocalError::Busy { name: name.to_owned(), seconds: PATIENCE.as_secs() });
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(LocalError::sys("lock", path)(error)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn record(&self) -> PathBuf {
        self.path.join("record.json")
    }

    pub(crate) fn load<T: DeserializeOwned>(&self) -> Result<Option<T>, LocalError> {
        load(&self.path)
    }

    /// Replaces the record as a whole: a reader sees the old one or the new one.
    pub(crate) fn save<T: Serialize>(&self, record: &T) -> Result<(), LocalError> {
        let path = self.record();
        let bytes = serde_json::to_vec_pretty(record)
            .map_err(|error| LocalError::Record { path: path.clone(), reason: error.to_string() })?;
        let draft = self.path.join("record.json.new");
        let written =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).and_then(
                |mut file| {
                    file.write_all(&bytes)?;
                    file.sync_all()
                },
            );
        written.map_err(LocalError::io("write", &draft))?;
        fs::rename(&draft, &path).map_err(LocalError::io("write", &path))?;
        File::open(&self.path)
            .and_then(|folder| folder.sync_all())
            .map_err(LocalError::io("write", &self.path))
    }

    /// Removes the folder. The record goes first: without one there is no resource.
    pub(crate) fn remove(self) -> Result<(), LocalError> {
        match fs::remove_file(self.record()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LocalError::io("remove", &self.record())(error));
            }
            _ => {}
        }
        fs::remove_dir_all(&self.path).map_err(LocalError::io("remove", &self.path))
    }
}

/// The record in a folder, without its lock: a snapshot for a reader.
pub(crate) fn load<T: DeserializeOwned>(folder: &Path) -> Result<Option<T>, LocalError> {
    let path = folder.join("record.json");
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| LocalError::Record { path, reason: error.to_string() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LocalError::io("read", &path)(error)),
    }
}

fn same(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
        _ => false,
    }
}
