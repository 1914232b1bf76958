//! One bare repository per address, used by one process at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use gix::ObjectId;
use sha2::{Digest, Sha256};

use crate::GitError;
use crate::address::Address;

/// The locked cache of one repository.
pub(crate) struct Cache {
    pub(crate) repository: gix::Repository,
    pub(crate) folder: PathBuf,
    _lock: File,
}

/// How often a lock that another holds is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

impl Cache {
    /// Opens the cache of an address, making it if needed; true where it is new.
    pub(crate) fn open(
        caches: &Path,
        address: &Address,
        deadline: Instant,
    ) -> Result<(Self, bool), GitError> {
        fs::create_dir_all(caches)?;
        let name = hex::encode(Sha256::digest(address.to_string()));
        let lock = File::create(caches.join(format!("{name}.lock")))?;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(GitError::TimedOut {
                        what: format!("waiting for another fetch of {address}"),
                    });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            }
        }
        lock.set_modified(SystemTime::now())?;
        let folder = caches.join(format!("{name}.git"));
        let new = !folder.try_exists()?;
        if new {
            make(caches, &folder, address)?;
        }
        let repository = match open_isolated(&folder) {
            Ok(repository) => repository,
            Err(_) => {
                // A cache that can't be opened is worth nothing; a second failure is reported.
                fs::remove_dir_all(&folder)?;
                make(caches, &folder, address)?;
                open_isolated(&folder).map_err(|error| damaged(address, error))?
            }
        };
        Ok((Self { repository, folder, _lock: lock }, new))
    }

    pub(crate) fn has(&self, id: ObjectId) -> bool {
        self.repository.has_object(id)
    }

    /// Throws the content away, keeping the lock.
    pub(crate) fn clear(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }
}

/// Removes every cache in these folders that nobody has used for so long, and nobody uses now. Its lock stays: somebody
/// may wait for it.
pub(crate) fn prune(folders: &[PathBuf], unused: Duration) -> io::Result<()> {
    for folder in folders {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let cache = path.with_extension("git");
            if path.extension() != Some("lock".as_ref()) || !cache.is_dir() {
                continue;
            }
            let lock = File::open(&path)?;
            let since = lock.metadata()?.modified()?.elapsed().unwrap_or_default();
            if since >= unused && lock.try_lock().is_ok() {
                fs::remove_dir_all(cache)?;
            }
        }
    }
    Ok(())
}

fn make(caches: &Path, folder: &Path, address: &Address) -> Result<(), GitError> {
    // Made under another name, so that a crash leaves no half of one.
    let new = tempfile::Builder::new().prefix(".new-").tempdir_in(caches)?;
    let bare = new.path().join("bare");
    gix::ThreadSafeRepository::init_opts(
        &bare,
        gix::create::Kind::Bare,
        gix::create::Options::default(),
        gix::open::Options::isolated(),
    )
    .map_err(|error| damaged(address, error))?;
    fs::rename(&bare, folder)?;
    Ok(())
}

/// Opens a repository without any configuration of the machine, the user or the environment.
pub(crate) fn open_isolated(folder: &Path) -> gix::Result<gix::Repository> {
    Ok(gix::open::Options::isolated().open(folder)?.to_thread_local())
}

pub(crate) fn damaged(
    address: &Address,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> GitError {
    GitError::Damaged { repository: address.to_string(), source: error.into() }
}
