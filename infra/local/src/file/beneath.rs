//! Reaching a file below a folder without ever following a link.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::digest;
use crate::error::LocalError;
use crate::root::{Root, create_private};

/// The components of a path that stays below; the error says why it doesn't.
pub(super) fn components(path: &str) -> Result<(Vec<&str>, &str), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    if path.starts_with('/') {
        return Err("is absolute");
    }
    if path.contains('\0') {
        return Err("holds a NUL character");
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    for part in &parts {
        match *part {
            "" => return Err("has an empty component"),
            "." => return Err("has the component `.`"),
            ".." => return Err("leaves its folder with `..`"),
            part if part.len() > 200 => return Err("has a component of more than 200 bytes"),
            _ => {}
        }
    }
    let leaf = parts.pop().ok_or("is empty")?;
    Ok((parts, leaf))
}

/// A file's place: the opened folder that holds it, and its name there.
#[derive(Debug)]
pub(super) struct Place {
    // The folders from the top down, so that empty ones can be removed again.
    above: Vec<(OwnedFd, String)>,
    folder: OwnedFd,
    leaf: String,
    path: String,
}

/// A file as it is.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

impl Place {
    /// The place, with the folders above it made.
    pub(super) fn create(root: &Root, path: &str) -> Result<Self, LocalError> {
        create_private(&root.files())?;
        Self::walk(root, path, true)?.ok_or_else(|| LocalError::Escape {
            path: path.to_owned(),
            reason: "a folder of it was removed meanwhile",
        })
    }

    /// The place; none when a folder above it isn't there.
    pub(super) fn open(root: &Root, path: &str) -> Result<Option<Self>, LocalError> {
        Self::walk(root, path, false)
    }

    fn walk(root: &Root, path: &str, make: bool) -> Result<Option<Self>, LocalError> {
        let escape = |reason| LocalError::Escape { path: path.to_owned(), reason };
        let (parts, leaf) = components(path).map_err(escape)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let files = root.files();
        let opened = |result: rustix::io::Result<OwnedFd>| match result {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(escape("one of its folders is a link or a file")),
            Err(error) => Err(LocalError::sys("open a folder of", &files.join(path))(error)),
        };
        let Some(mut folder) = opened(rustix::fs::open(&files, flags, Mode::empty()))? else {
            return Ok(None);
        };
        let mut above = Vec::new();
        for part in parts {
            if make {
                match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => {
                        return Err(LocalError::sys("create a folder of", &files.join(path))(error));
                    }
                }
            }
            let Some(next) = opened(rustix::fs::openat(&folder, part, flags, Mode::empty()))? else {
                return Ok(None);
            };
            above.push((std::mem::replace(&mut folder, next), part.to_owned()));
        }
        Ok(Some(Self { above, folder, leaf: leaf.to_owned(), path: path.to_owned() }))
    }

    fn sys(&self, doing: &'static str) -> impl FnOnce(Errno) -> LocalError {
        LocalError::sys(doing, self.path.as_ref())
    }

    fn io(&self, doing: &'static str) -> impl FnOnce(std::io::Error) -> LocalError {
        LocalError::io(doing, self.path.as_ref())
    }

    /// The file; none when it isn't there. A link or a folder in its place is an error.
    pub(super) fn read(&self) -> Result<Option<Found>, LocalError> {
        let escape = |reason| LocalError::Escape { path: self.path.clone(), reason };
        // Without waiting, or a named pipe in the file's place would hold us up for ever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.folder, self.leaf.as_str(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(escape("it is a link")),
            Err(error) => return Err(self.sys("open")(error)),
        };
        let status = rustix::fs::fstat(&file).map_err(self.sys("look at"))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(escape("something else than a file is there"));
        }
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes).map_err(self.io("read"))?;
        Ok(Some(Found { bytes, mode: status.st_mode & 0o777 }))
    }

    /// Replaces the file as a whole: a reader sees the old one or the new one.
    pub(super) fn write(&self, bytes: &[u8], mode: u32) -> Result<(), LocalError> {
        self.read_kind()?;
        // The name is the same each time, so that a death leaves at most one draft.
        let draft = format!(".draft-{}", digest::sha256(self.leaf.as_bytes()));
        let _ = rustix::fs::unlinkat(&self.folder, draft.as_str(), AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, draft.as_str(), flags, Mode::from_raw_mode(0o600))
            .map_err(self.sys("create"))?;
        let mut file = File::from(file);
        file.write_all(bytes).map_err(self.io("write"))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(self.sys("set the mode of"))?;
        file.sync_all().map_err(self.io("write"))?;
        rustix::fs::renameat(&self.folder, draft.as_str(), &self.folder, self.leaf.as_str())
            .map_err(self.sys("write"))?;
        rustix::fs::fsync(&self.folder).map_err(self.sys("write"))
    }

    fn read_kind(&self) -> Result<(), LocalError> {
        match rustix::fs::statat(&self.folder, self.leaf.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) if FileType::from_raw_mode(status.st_mode) == FileType::RegularFile => Ok(()),
            Ok(_) => Err(LocalError::Escape {
                path: self.path.clone(),
                reason: "a link or something else than a file is there",
            }),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.sys("look at")(error)),
        }
    }

    pub(super) fn remove(self) -> Result<(), LocalError> {
        match rustix::fs::unlinkat(&self.folder, self.leaf.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(self.sys("remove")(error)),
        }
        for (folder, name) in self.above.iter().rev() {
            // Fails at the first one that still holds something, which is meant.
            if rustix::fs::unlinkat(folder, name.as_str(), AtFlags::REMOVEDIR).is_err() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_neither_on_the_way_nor_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("victim"), "safe").unwrap();
        let root = Root::open(folder.path()).unwrap();
        std::fs::create_dir(root.files()).unwrap();
        symlink(outside.path(), root.files().join("way")).unwrap();
        symlink(outside.path().join("victim"), root.files().join("end")).unwrap();

        assert!(matches!(Place::create(&root, "way/victim"), Err(LocalError::Escape { .. })));
        let place = Place::create(&root, "end").unwrap();
        assert!(place.read().is_err());
        assert!(place.write(b"owned", 0o644).is_err());
        assert_eq!(std::fs::read_to_string(outside.path().join("victim")).unwrap(), "safe");
    }

    #[test]
    fn writing_and_removing_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let place = Place::create(&root, "a/b/c.txt").unwrap();
        place.write(b"one", 0o640).unwrap();
        place.write(b"two", 0o400).unwrap();
        let found = place.read().unwrap().unwrap();
        assert_eq!((found.bytes.as_slice(), found.mode), (b"two".as_slice(), 0o400));
        place.remove().unwrap();
        assert_eq!(std::fs::read_dir(root.files()).unwrap().count(), 0);
    }
}
