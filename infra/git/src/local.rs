//! Repositories in a folder of this machine: read directly, never changed.

use std::path::Path;
use std::time::Instant;

use gix::ObjectId;
use gix::objs::Write as _;
use gix::objs::tree::EntryKind;

use crate::GitError;
use crate::address::Address;
use crate::cache::{Cache, damaged, open_isolated};

pub(crate) fn open(path: &Path, address: &Address) -> Result<gix::Repository, GitError> {
    let gone = || GitError::Gone { repository: address.to_string() };
    if !path.try_exists()? {
        return Err(gone());
    }
    open_isolated(path).map_err(|_| gone())
}

/// The commit that a full name (`HEAD`, `refs/…`) points to, through tags; None where there is no such name.
pub(crate) fn peel(
    repository: &gix::Repository,
    address: &Address,
    name: &str,
) -> Result<Option<ObjectId>, GitError> {
    let Ok(Some(mut reference)) = repository.try_find_reference(name) else { return Ok(None) };
    let Ok(id) = reference.peel_to_id() else { return Ok(None) };
    let Ok(header) = id.header() else { return Ok(None) };
    match header.kind() {
        gix::objs::Kind::Commit => Ok(Some(id.detach())),
        other => Err(not_a_commit(address, name, other)),
    }
}

pub(crate) fn not_a_commit(address: &Address, reference: &str, kind: gix::objs::Kind) -> GitError {
    let kind = match kind {
        gix::objs::Kind::Blob => "file",
        gix::objs::Kind::Tree => "folder",
        gix::objs::Kind::Commit => "commit",
        gix::objs::Kind::Tag => "tag",
    };
    GitError::NotACommit {
        repository: address.to_string(),
        reference: reference.to_owned(),
        kind: kind.to_owned(),
    }
}

/// Copies a commit's files into the cache, so that it stays there whatever happens to the repository.
/// The commit comes last: where it is, everything below it is.
pub(crate) fn copy(
    from: &gix::Repository,
    cache: &Cache,
    address: &Address,
    commit: ObjectId,
    deadline: Instant,
) -> Result<(), GitError> {
    let not_found =
        || GitError::CommitNotFound { repository: address.to_string(), commit: commit.to_string() };
    let object = from.try_find_object(commit).map_err(|error| damaged(address, error))?;
    let object = object.ok_or_else(not_found)?;
    if object.kind != gix::objs::Kind::Commit {
        return Err(not_a_commit(address, &commit.to_string(), object.kind));
    }
    let tree = gix::objs::CommitRef::from_bytes(&object.data, gix::hash::Kind::Sha1)
        .map_err(|error| damaged(address, error))?
        .tree();
    copy_tree(from, cache, address, tree, deadline)?;
    write(cache, address, gix::objs::Kind::Commit, &object.data)
}

fn copy_tree(
    from: &gix::Repository,
    cache: &Cache,
    address: &Address,
    tree: ObjectId,
    deadline: Instant,
) -> Result<(), GitError> {
    if cache.has(tree) {
        return Ok(());
    }
    let object = from.find_object(tree).map_err(|error| damaged(address, error))?;
    let entries = gix::objs::TreeRef::from_bytes(&object.data, gix::hash::Kind::Sha1)
        .map_err(|error| damaged(address, error))?;
    for entry in &entries.entries {
        if Instant::now() >= deadline {
            return Err(GitError::TimedOut { what: format!("reading {address}") });
        }
        let id = entry.oid.to_owned();
        match entry.mode.kind() {
            EntryKind::Tree => copy_tree(from, cache, address, id, deadline)?,
            // A submodule's commit is in another repository.
            EntryKind::Commit => {}
            EntryKind::Blob | EntryKind::BlobExecutable | EntryKind::Link => {
                if !cache.has(id) {
                    let blob = from.find_object(id).map_err(|error| damaged(address, error))?;
                    write(cache, address, gix::objs::Kind::Blob, &blob.data)?;
                }
            }
        }
    }
    write(cache, address, gix::objs::Kind::Tree, &object.data)
}

fn write(cache: &Cache, address: &Address, kind: gix::objs::Kind, data: &[u8]) -> Result<(), GitError> {
    cache.repository.objects.write_buf(kind, data).map(|_| ()).map_err(|error| damaged(address, error))
}
