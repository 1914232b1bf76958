//! A Pulumi that somebody has installed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::run::pulumi_version;
use super::{AttemptError, HOST_PREFIX, MINIMUM_VERSION, Origin, PULUMI, Tools, YAML_HOST};

/// Looks through a list of folders written like `PATH`.
pub(super) fn find(path: &OsStr) -> Result<Tools, AttemptError> {
    // An empty entry would mean the current folder, which is nobody's intention.
    let folders: Vec<PathBuf> = std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
    let pulumi = folders
        .iter()
        .map(|folder| folder.join(PULUMI))
        .find(|file| is_program(file))
        .ok_or_else(|| AttemptError::Absent { program: PULUMI.into() })?;
    let version = pulumi_version(&pulumi)?;
    if version < MINIMUM_VERSION {
        return Err(AttemptError::TooOld { found: version });
    }
    // Pulumi looks beside itself first, then along PATH.
    let beside = pulumi.parent().map(Path::to_owned);
    let searched: Vec<PathBuf> = beside.into_iter().chain(folders).collect();
    let hosts = hosts(&searched);
    if !hosts.contains_key(YAML_HOST) {
        return Err(AttemptError::Absent { program: YAML_HOST.into() });
    }
    let mut digests = BTreeMap::from([(PULUMI.to_owned(), sha256(&pulumi)?)]);
    let mut path_dirs: Vec<PathBuf> = Vec::new();
    for (name, file) in &hosts {
        digests.insert(name.clone(), sha256(file)?);
        if let Some(folder) = file.parent()
            && !path_dirs.iter().any(|known| known == folder)
        {
            path_dirs.push(folder.to_owned());
        }
    }
    Ok(Tools { pulumi, path_dirs, version, digests, origin: Origin::Installed })
}

/// The language hosts in some folders, the first of each name.
pub(super) fn hosts(folders: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for folder in folders {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with(HOST_PREFIX) && is_program(&entry.path()) {
                found.entry(name).or_insert_with(|| entry.path());
            }
        }
    }
    found
}

pub(super) fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

pub(super) fn sha256(file: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    io::copy(&mut File::open(file)?, &mut digest)?;
    Ok(hex::encode(digest.finalize()))
}
