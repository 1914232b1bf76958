//! Resolving names to commits, and checking commits out.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gix::ObjectId;
use sha2::{Digest, Sha256};

use crate::address::Address;
use crate::cache::{self, Cache, damaged};
use crate::export::{Export, clear};
use crate::remote::Access;
use crate::{Credential, GitError, local};

/// What a repository may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files and folders in a checkout.
    pub files: u64,
    /// Bytes in a checkout.
    pub bytes: u64,
    /// Bytes that one fetch may bring.
    pub fetch_bytes: u64,
    /// How long a cache stays that nobody uses; looked at whenever a new one is made.
    pub unused: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let days = Duration::from_hours(30 * 24);
        Self { files: 50_000, bytes: 512 << 20, fetch_bytes: 2 << 30, unused: days }
    }
}

/// A commit's files in a folder of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// The folder with the whole repository.
    pub dir: PathBuf,
    /// The program's folder in it.
    pub program_dir: PathBuf,
    /// SHA-256 in hex over the paths, kinds and contents of all files.
    pub tree_digest: String,
}

/// Git repositories, by way of a cache that keeps every commit it has ever checked out.
///
/// All methods block. No configuration of the machine or its users is read, and no program is run: no hooks,
/// filters, credential helpers, transports or submodules. A repository on this machine is only read.
#[derive(Debug, Clone)]
pub struct GitSource {
    root: PathBuf,
    caches: PathBuf,
    limits: Limits,
}

/// The length of the name of an owner's folder.
const OWNER: usize = 64;
/// The shortest part of a hash that is taken for one, as in Git.
const SHORTEST_HASH: usize = 4;

impl GitSource {
    /// A source whose caches are below a folder.
    pub fn new(cache_dir: impl Into<PathBuf>, limits: Limits) -> Self {
        // Another provider that is there already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root: PathBuf = cache_dir.into();
        Self { caches: root.clone(), root, limits }
    }

    /// The same with caches of an owner's own: what one may read with a credential is in no cache of another's.
    pub fn of(&self, owner: &str) -> Self {
        let caches = self.root.join(hex::encode(Sha256::digest(owner)));
        Self { caches, ..self.clone() }
    }

    /// The full hash of the commit that a branch, a tag, `HEAD`, or a full or shortened hash means now.
    ///
    /// A full hash is returned as it is: only a checkout tells whether the commit exists.
    pub fn resolve(
        &self,
        repository: &str,
        reference: &str,
        credential: Option<&Credential>,
        deadline: Instant,
    ) -> Result<String, GitError> {
        let address = Address::parse(repository)?;
        if let Some(full) = full_hash(reference) {
            return Ok(full.to_string());
        }
        check_reference(reference)?;
        let found = match &address {
            Address::Local(path) => resolve_local(&local::open(path, &address)?, &address, reference),
            Address::Http(_) => {
                let cache = self.open(&address, deadline)?;
                let access = self.access(&address, credential, deadline);
                let names = access.names(&cache)?;
                let name = |full: &str| Ok(names.iter().find(|(name, _)| name == full).map(|(_, id)| *id));
                match by_name(reference, name)? {
                    Some(found) => Ok(found),
                    None if may_be_hash(reference) => {
                        access.fetch_everything(&cache)?;
                        by_short_hash(&cache.repository, &address, reference)
                    }
                    None => Err(not_found(&address, reference)),
                }
            }
        }?;
        Ok(found.to_string())
    }

    /// Writes the files of a commit to `dest`, which must not exist while its parent must.
    ///
    /// A commit that was checked out before comes from the cache, whatever has happened to the repository
    /// since. After an error there is nothing at `dest`.
    pub fn checkout(
        &self,
        repository: &str,
        commit: &str,
        path_in_repository: &str,
        dest: &Path,
        credential: Option<&Credential>,
        deadline: Instant,
    ) -> Result<Checkout, GitError> {
        let address = Address::parse(repository)?;
        let id = full_hash(commit).ok_or_else(|| GitError::NotACommitHash { commit: commit.into() })?;
        let program = inner_path(path_in_repository)?;
        if dest.symlink_metadata().is_ok() {
            return Err(GitError::DestinationExists { folder: dest.into() });
        }
        let access = self.access(&address, credential, deadline);
        let mut cache = self.open(&address, deadline)?;
        let attempt = |cache: &Cache| {
            if !cache.has(id) {
                obtain(&access, cache, id)?;
            }
            let export = Export::new(cache, &address, &self.limits, deadline, &program, dest);
            export.run(id).inspect_err(|_| clear(dest))
        };
        let tree_digest = match attempt(&cache) {
            Err(GitError::Damaged { source, .. }) => {
                tracing::warn!(repository = %address, %source, "the cache is damaged and made anew");
                cache.clear()?;
                drop(cache);
                cache = self.open(&address, deadline)?;
                attempt(&cache)
            }
            other => other,
        }?;
        Ok(Checkout { dir: dest.to_owned(), program_dir: dest.join(&program), tree_digest })
    }

    fn open(&self, address: &Address, deadline: Instant) -> Result<Cache, GitError> {
        let (cache, new) = Cache::open(&self.caches, address, deadline)?;
        // What can't be removed now is found by the next new one.
        if new && let Err(error) = cache::prune(&self.folders()?, self.limits.unused) {
            tracing::warn!(%error, "caches that nobody uses could not be removed");
        }
        Ok(cache)
    }

    /// Where owners' caches are.
    fn folders(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut folders = vec![self.root.clone()];
        for entry in std::fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.len() == OWNER) && path.is_dir() {
                folders.push(path);
            }
        }
        Ok(folders)
    }

    fn access<'a>(
        &self,
        address: &'a Address,
        credential: Option<&'a Credential>,
        deadline: Instant,
    ) -> Access<'a> {
        Access { address, credential, deadline, fetch_limit: self.limits.fetch_bytes }
    }
}

fn obtain(access: &Access<'_>, cache: &Cache, commit: ObjectId) -> Result<(), GitError> {
    match access.address {
        Address::Http(_) => access.fetch_commit(cache, commit),
        Address::Local(path) => {
            let from = local::open(path, access.address)?;
            local::copy(&from, cache, access.address, commit, access.deadline)
        }
    }
}

fn resolve_local(
    repository: &gix::Repository,
    address: &Address,
    reference: &str,
) -> Result<ObjectId, GitError> {
    match by_name(reference, |full| local::peel(repository, address, full))? {
        Some(found) => Ok(found),
        None if may_be_hash(reference) => by_short_hash(repository, address, reference),
        None => Err(not_found(address, reference)),
    }
}

/// Looks a name up among branches and tags; one that is both must mean the same commit.
fn by_name(
    reference: &str,
    lookup: impl Fn(&str) -> Result<Option<ObjectId>, GitError>,
) -> Result<Option<ObjectId>, GitError> {
    if reference == "HEAD" || reference.starts_with("refs/") {
        return lookup(reference);
    }
    let tag = lookup(&format!("refs/tags/{reference}"))?;
    let branch = lookup(&format!("refs/heads/{reference}"))?;
    match (tag, branch) {
        (Some(tag), Some(branch)) if tag != branch => Err(GitError::Ambiguous {
            reference: reference.into(),
            candidates: vec![format!("tag {tag}"), format!("branch {branch}")],
        }),
        (tag, branch) => Ok(tag.or(branch)),
    }
}

fn by_short_hash(
    repository: &gix::Repository,
    address: &Address,
    reference: &str,
) -> Result<ObjectId, GitError> {
    let prefix = gix::hash::Prefix::from_hex(reference)
        .map_err(|_| GitError::BadReference { reference: reference.into() })?;
    let mut candidates = std::collections::HashSet::new();
    repository
        .objects
        .lookup_prefix(prefix, Some(&mut candidates))
        .map_err(|error| damaged(address, error))?;
    // Files and folders that begin alike don't matter: a commit is asked for.
    let mut commits: Vec<ObjectId> = candidates
        .into_iter()
        .filter(|id| repository.find_header(*id).is_ok_and(|header| header.kind() == gix::objs::Kind::Commit))
        .collect();
    commits.sort();
    match commits.as_slice() {
        [] => Err(not_found(address, reference)),
        [only] => Ok(*only),
        several => Err(GitError::Ambiguous {
            reference: reference.into(),
            candidates: several.iter().map(ToString::to_string).collect(),
        }),
    }
}

fn not_found(address: &Address, reference: &str) -> GitError {
    GitError::ReferenceNotFound { repository: address.to_string(), reference: reference.into() }
}

fn full_hash(text: &str) -> Option<ObjectId> {
    if text.len() != 40 {
        return None;
    }
    ObjectId::from_hex(text.to_ascii_lowercase().as_bytes()).ok()
}

fn may_be_hash(text: &str) -> bool {
    (SHORTEST_HASH..40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Only plain names: no ranges, no `@{1}`, nothing that looks like an option.
fn check_reference(reference: &str) -> Result<(), GitError> {
    let full = format!("refs/heads/{reference}");
    let plain = !reference.starts_with('-')
        && gix::validate::reference::name(full.as_str().into()).is_ok()
        && !reference.ends_with('/');
    if plain { Ok(()) } else { Err(GitError::BadReference { reference: reference.into() }) }
}

/// The path without dots and doubled slashes; empty for the root.
fn inner_path(path: &str) -> Result<String, GitError> {
    let escapes = || GitError::PathEscapes { path: path.into() };
    if path.starts_with('/') || path.contains(['\\', '\0']) {
        return Err(escapes());
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(escapes()),
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}
