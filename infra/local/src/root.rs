//! The environment's root folder.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::digest;
use crate::error::LocalError;

/// Names the variable that holds the absolute path of the environment's root folder.
pub const ROOT_VARIABLE: &str = "RUNTIME_CLOUD_LOCAL_ROOT";

/// The folder that everything of one environment is below.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
}

impl Root {
    pub(crate) fn from_environment() -> Result<Self, LocalError> {
        let path = std::env::var_os(ROOT_VARIABLE)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .ok_or(LocalError::RootMissing)?;
        if !path.is_absolute() {
            return Err(LocalError::RootRelative(path));
        }
        create_private(&path)?;
        Self::open(&path)
    }

    /// A root that exists; links are resolved so that one folder has one identity.
    pub(crate) fn open(path: &Path) -> Result<Self, LocalError> {
        let path = path.canonicalize().map_err(LocalError::io("open the root folder", path))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn services(&self) -> PathBuf {
        self.path.join("services")
    }

    pub(crate) fn service(&self, name: &str) -> PathBuf {
        self.services().join(digest::encode(name))
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.path.join("files")
    }

    pub(crate) fn file_record(&self, path: &str) -> PathBuf {
        self.path.join("file-records").join(digest::encode(path))
    }

    /// Starts the marker of every process below this root.
    pub(crate) fn marker(&self) -> String {
        let path = digest::sha256(self.path.as_os_str().as_encoded_bytes());
        path.chars().take(32).collect()
    }

    /// Starts the marker of every process of one service.
    pub(crate) fn service_marker(&self, name: &str) -> String {
        let name: String = digest::sha256(name.as_bytes()).chars().take(32).collect();
        format!("{}.{name}", self.marker())
    }

    /// The key of this root's digests: made once, readable by its owner only.
    pub(crate) fn key(&self) -> Result<[u8; 32], LocalError> {
        let path = self.path.join("key");
        if let Some(key) = read_key(&path)? {
            return Ok(key);
        }
        let mut key = [0_u8; 32];
        let random = Path::new("/dev/urandom");
        fs::File::open(random)
            .and_then(|mut file| file.read_exact(&mut key))
            .map_err(LocalError::io("read", random))?;
        let draft = self.path.join(format!("key.{}", hex::encode(key.get(..8).unwrap_or_default())));
        let written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(
            |mut file| {
                file.write_all(&key)?;
                file.sync_all()
            },
        );
        written.map_err(LocalError::io("write", &draft))?;
        // A link, because it fails when somebody else was first, and never shows half a key.
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft).map_err(LocalError::io("remove", &draft))?;
        match linked {
            Ok(()) => Ok(key),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                read_key(&path)?.ok_or_else(|| LocalError::Record { path, reason: "it went away".to_owned() })
            }
            Err(error) => Err(LocalError::io("write", &path)(error)),
        }
    }
}

fn read_key(path: &Path) -> Result<Option<[u8; 32]>, LocalError> {
    match fs::read(path) {
        Ok(bytes) => match <[u8; 32]>::try_from(bytes) {
            Ok(key) => Ok(Some(key)),
            Err(_) => Err(LocalError::Record {
                path: path.to_owned(),
                reason: "it is not 32 bytes long".to_owned(),
            }),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LocalError::io("read", path)(error)),
    }
}

/// Makes a folder that only its owner can enter, and those above it.
pub(crate) fn create_private(path: &Path) -> Result<(), LocalError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(LocalError::io("create the folder", path))
}
