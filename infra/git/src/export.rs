//! Writing the files of a commit to a new folder: plain content, nothing run, nothing followed.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::time::Instant;

use gix::ObjectId;
use gix::objs::Kind;
use gix::objs::tree::EntryKind;
use sha2::{Digest, Sha256};

use crate::address::Address;
use crate::cache::{Cache, damaged};
use crate::links::{Links, stays_inside};
use crate::local::not_a_commit;
use crate::{GitError, Limits};

/// What every LFS pointer file begins with.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";

/// One export on its way.
pub(crate) struct Export<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) address: &'a Address,
    pub(crate) limits: &'a Limits,
    pub(crate) deadline: Instant,
    /// The program's folder in the repository; empty for its root.
    pub(crate) program: &'a str,
    pub(crate) dest: &'a Path,
    links: Links,
    files: u64,
    bytes: u64,
    digest: Sha256,
}

impl<'a> Export<'a> {
    pub(crate) fn new(
        cache: &'a Cache,
        address: &'a Address,
        limits: &'a Limits,
        deadline: Instant,
        program: &'a str,
        dest: &'a Path,
    ) -> Self {
        let (links, digest) = (Links::new(), Sha256::new());
        Self { cache, address, limits, deadline, program, dest, links, files: 0, bytes: 0, digest }
    }

    /// Writes all files of the commit and returns the digest of paths, kinds and contents.
    pub(crate) fn run(mut self, commit: ObjectId) -> Result<String, GitError> {
        let header = self.cache.repository.find_header(commit).map_err(|e| damaged(self.address, e))?;
        if header.kind() != Kind::Commit {
            return Err(not_a_commit(self.address, &commit.to_string(), header.kind()));
        }
        let data = self.object(commit, Kind::Commit)?;
        let tree = gix::objs::CommitRef::from_bytes(&data, gix::hash::Kind::Sha1)
            .map_err(|error| damaged(self.address, error))?
            .tree();
        self.require_program(commit, tree)?;
        DirBuilder::new().mode(0o755).create(self.dest)?;
        self.tree(tree, "")?;
        // Last, so that no file is ever written through a link.
        for (path, target) in &self.links {
            if !stays_inside(&self.links, path) {
                return Err(GitError::LinkEscapes { path: path.clone() });
            }
            symlink(target, self.dest.join(path))?;
        }
        Ok(hex::encode(self.digest.finalize()))
    }

    fn require_program(&self, commit: ObjectId, root: ObjectId) -> Result<(), GitError> {
        let mut tree = root;
        let mut walked = Vec::new();
        for part in self.program.split('/').filter(|part| !part.is_empty()) {
            walked.push(part);
            let data = self.object(tree, Kind::Tree)?;
            let entries = self.entries(&data)?;
            let entry = entries.entries.iter().find(|entry| entry.filename == part);
            tree = match entry.map(|entry| (entry.mode.kind(), entry)) {
                Some((EntryKind::Tree, entry)) => entry.oid.to_owned(),
                Some((EntryKind::Commit, entry)) => return Err(no_files(walked.join("/"), entry)),
                _ => {
                    let path = self.program.to_owned();
                    return Err(GitError::PathNotFound { commit: commit.to_string(), path });
                }
            };
        }
        Ok(())
    }

    fn tree(&mut self, id: ObjectId, folder: &str) -> Result<(), GitError> {
        let data = self.object(id, Kind::Tree)?;
        for entry in &self.entries(&data)?.entries {
            if Instant::now() >= self.deadline {
                return Err(GitError::TimedOut { what: format!("writing the files of {}", self.address) });
            }
            let path = self.path(folder, entry.filename)?;
            self.count(1, 0)?;
            let id = entry.oid.to_owned();
            let kind = entry.mode.kind();
            match kind {
                EntryKind::Tree => {
                    self.note(&path, kind, &[]);
                    DirBuilder::new().mode(0o755).create(self.dest.join(&path))?;
                    self.tree(id, &path)?;
                }
                EntryKind::Commit => {
                    // A mode that Git doesn't know says nothing of what it would be, wherever it stands.
                    if self.in_program(&path) || entry.mode.value() != SUBMODULE {
                        return Err(no_files(path, entry));
                    }
                    self.note(&path, kind, id.as_slice());
                }
                EntryKind::Link => {
                    let target = self.object(id, Kind::Blob)?;
                    self.note(&path, kind, &target);
                    let Ok(target) = String::from_utf8(target) else {
                        return Err(GitError::LinkEscapes { path });
                    };
                    self.links.insert(path, target);
                }
                EntryKind::Blob | EntryKind::BlobExecutable => {
                    let content = self.object(id, Kind::Blob)?;
                    if content.starts_with(LFS) && content.len() < 1024 && self.in_program(&path) {
                        return Err(GitError::LargeFilePointer { path });
                    }
                    self.count(0, content.len())?;
                    self.note(&path, kind, &content);
                    let mode = if kind == EntryKind::BlobExecutable { 0o755 } else { 0o644 };
                    let mut options = OpenOptions::new();
                    options.write(true).create_new(true).mode(mode);
                    options.open(self.dest.join(&path))?.write_all(&content)?;
                }
            }
        }
        Ok(())
    }

    fn entries<'d>(&self, data: &'d [u8]) -> Result<gix::objs::TreeRef<'d>, GitError> {
        gix::objs::TreeRef::from_bytes(data, gix::hash::Kind::Sha1)
            .map_err(|error| damaged(self.address, error))
    }

    /// The path of an entry, if its name can't lead anywhere else or be mistaken for a repository.
    fn path(&self, folder: &str, name: &[u8]) -> Result<String, GitError> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let path = if folder.is_empty() { shown.clone() } else { format!("{folder}/{shown}") };
        let harmful = shown.is_empty()
            || shown == "."
            || shown == ".."
            || shown.contains(['/', '\\', '\0'])
            || shown.eq_ignore_ascii_case(".git")
            || shown.as_bytes() != name;
        if harmful { Err(GitError::BadName { path }) } else { Ok(path) }
    }

    fn in_program(&self, path: &str) -> bool {
        self.program.is_empty() || path.strip_prefix(self.program).is_some_and(|rest| rest.starts_with('/'))
    }

    fn count(&mut self, files: u64, bytes: usize) -> Result<(), GitError> {
        self.files += files;
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.files > self.limits.files {
            return Err(GitError::TooLarge { what: "files", limit: self.limits.files });
        }
        if self.bytes > self.limits.bytes {
            return Err(GitError::TooLarge { what: "bytes", limit: self.limits.bytes });
        }
        Ok(())
    }

    /// Each part with its length before it, so that no two trees have the same bytes.
    fn note(&mut self, path: &str, kind: EntryKind, content: &[u8]) {
        for part in [path.as_bytes(), kind.as_octal_str().as_ref(), content] {
            self.digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            self.digest.update(part);
        }
    }

    /// An object whose content has been checked against its name.
    fn object(&self, id: ObjectId, kind: Kind) -> Result<Vec<u8>, GitError> {
        // Asked first, so that a huge file is refused without being read.
        let header = self.cache.repository.find_header(id).map_err(|error| damaged(self.address, error))?;
        if header.size() > self.limits.bytes {
            return Err(GitError::TooLarge { what: "bytes", limit: self.limits.bytes });
        }
        let mut object =
            self.cache.repository.find_object(id).map_err(|error| damaged(self.address, error))?;
        let data = std::mem::take(&mut object.data);
        let found = gix::objs::compute_hash(gix::hash::Kind::Sha1, kind, &data)
            .map_err(|error| damaged(self.address, error))?;
        if object.kind != kind || found != id {
            return Err(damaged(self.address, format!("{id} is not what its name says")));
        }
        Ok(data)
    }
}

/// A submodule's mode.
const SUBMODULE: u16 = 0o160_000;

/// Why an entry has no files: the library takes every unknown mode for a submodule's.
fn no_files(path: String, entry: &gix::objs::tree::EntryRef<'_>) -> GitError {
    if entry.mode.value() == SUBMODULE { GitError::Submodule { path } } else { GitError::BadMode { path } }
}

/// Takes away what a failed export has left.
pub(crate) fn clear(dest: &Path) {
    let _ = fs::remove_dir_all(dest);
}
