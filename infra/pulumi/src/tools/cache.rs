//! Tools kept from an earlier time, each checked before use.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::installed::{hosts, is_program, sha256};
use super::run::pulumi_version;
use super::{AttemptError, Origin, PULUMI, PULUMI_VERSION, Progress, Tools, YAML_HOST};

const DIGESTS: &str = "digests.json";
const UNFINISHED: &str = ".unfinished-";

/// The cache folder, held by this process alone.
pub(super) struct Cache {
    folder: PathBuf,
    _lock: File,
}

impl Cache {
    /// Makes and locks the folder, and clears away what a killed process has left.
    pub(super) fn open(folder: &Path, progress: &dyn Fn(Progress)) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = File::create(folder.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress(Progress::WaitingForAnother);
                lock.lock()?;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        for entry in fs::read_dir(folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        // Absolute, since programs are run from other folders.
        Ok(Self { folder: folder.canonicalize()?, _lock: lock })
    }

    fn kept(&self) -> PathBuf {
        self.folder.join(format!("{PULUMI_VERSION}-{}-{}", std::env::consts::OS, std::env::consts::ARCH))
    }

    /// The kept tools, if every program still has the digest it was kept with.
    pub(super) fn stored(&self) -> Result<Tools, AttemptError> {
        let kept = self.kept();
        let recorded = match fs::read(kept.join(DIGESTS)) {
            Ok(bytes) => serde_json::from_slice::<BTreeMap<String, String>>(&bytes)
                .map_err(|_| AttemptError::Changed { program: DIGESTS.into() })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(AttemptError::Absent { program: PULUMI.into() });
            }
            Err(error) => return Err(error.into()),
        };
        let programs = kept.join("bin");
        let found = digests(&programs)?;
        if let Some((program, _)) = found.iter().find(|(name, digest)| recorded.get(*name) != Some(*digest)) {
            return Err(AttemptError::Changed { program: program.clone() });
        }
        if let Some(program) = recorded.keys().find(|name| !found.contains_key(*name)) {
            return Err(AttemptError::Changed { program: program.clone() });
        }
        Ok(Tools {
            pulumi: programs.join(PULUMI),
            path_dirs: vec![programs],
            version: PULUMI_VERSION,
            digests: found,
            origin: Origin::Cached,
        })
    }

    /// A folder that vanishes unless it is kept.
    pub(super) fn new_folder(&self) -> io::Result<TempDir> {
        tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.folder)
    }

    /// Puts a filled folder in place at one stroke, after its Pulumi has told the right version.
    pub(super) fn keep(&self, new: TempDir) -> Result<Tools, AttemptError> {
        let programs = new.path().join("bin");
        let version = pulumi_version(&programs.join(PULUMI))?;
        if version != PULUMI_VERSION {
            let why = format!("it holds Pulumi {version} instead of {PULUMI_VERSION}");
            return Err(AttemptError::BadArchive { why });
        }
        let digests = digests(&programs)?;
        fs::write(new.path().join(DIGESTS), serde_json::to_vec_pretty(&digests).map_err(io::Error::from)?)?;
        let kept = self.kept();
        if kept.try_exists()? {
            // Only a copy that failed its check is ever replaced.
            let old = self.new_folder()?;
            fs::rename(&kept, old.path().join("old"))?;
        }
        fs::rename(new.path(), &kept)?;
        // The folder has another name now: nothing is left for its guard to remove.
        let _ = new.keep();
        self.stored()
    }
}

/// The digests of Pulumi and its hosts in a folder; both Pulumi and the YAML host must be there.
fn digests(programs: &Path) -> Result<BTreeMap<String, String>, AttemptError> {
    let mut files = hosts(&[programs.to_owned()]);
    files.insert(PULUMI.into(), programs.join(PULUMI));
    for needed in [PULUMI, YAML_HOST] {
        if !is_program(&programs.join(needed)) {
            return Err(AttemptError::Absent { program: needed.into() });
        }
    }
    files.into_iter().map(|(name, file)| Ok((name, sha256(&file)?))).collect()
}
