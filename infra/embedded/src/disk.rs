//! Files that are written once: whole or not at all, and on disk before anybody relies on them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(crate) use domain::aggregate::file_name;
use ports::Put;

/// Writes if nothing is there: to a temporary file, fsync, then a hard link, which fails where something is.
pub(crate) fn put_once(path: &Path, bytes: &[u8], mode: u32, unique: &str) -> io::Result<Put> {
    let parent = path.parent().ok_or_else(|| io::Error::other("no parent folder"))?;
    fs::create_dir_all(parent)?;
    if let Some(put) = compare(path, bytes)? {
        return Ok(put);
    }
    let temporary = parent.join(format!(".{unique}.tmp"));
    let written = write_synced(&temporary, bytes, mode);
    let linked = written.and_then(|()| fs::hard_link(&temporary, path));
    // A temporary file that stays behind is harmless; its name is never used again.
    drop(fs::remove_file(&temporary));
    match linked {
        Ok(()) => {
            File::open(parent)?.sync_all()?;
            Ok(Put::Created)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            compare(path, bytes)?.ok_or_else(|| io::Error::other("a file was removed while it was compared"))
        }
        Err(e) => Err(e),
    }
}

/// Writes over what is there: to a temporary file, fsync, then a rename.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32, unique: &str) -> io::Result<()> {
    let parent = path.parent().ok_or_else(|| io::Error::other("no parent folder"))?;
    let temporary = parent.join(format!(".{unique}.tmp"));
    write_synced(&temporary, bytes, mode)?;
    fs::rename(&temporary, path)?;
    File::open(parent)?.sync_all()
}

fn compare(path: &Path, bytes: &[u8]) -> io::Result<Option<Put>> {
    match fs::read(path) {
        Ok(found) if found == bytes => Ok(Some(Put::Same)),
        Ok(_) => Ok(Some(Put::Different)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn write_synced(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads; None where nothing is there.
pub(crate) fn get(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Keys of the files below a folder, sorted; temporary ones left out.
pub(crate) fn list(root: &Path, folder: &str) -> io::Result<Vec<String>> {
    let mut keys = vec![];
    let mut open = vec![(root.to_owned(), folder.to_owned())];
    while let Some((path, key)) = open.pop() {
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let key = format!("{key}/{name}");
            if entry.file_type()?.is_dir() {
                open.push((entry.path(), key));
            } else {
                keys.push(key);
            }
        }
    }
    keys.sort();
    Ok(keys)
}
