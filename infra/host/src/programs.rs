//! The product's own programs, as a Git repository in the data folder: a run takes them as it takes any other.

use std::path::{Path, PathBuf};

use events::{CommitHash, Program};
use gix::objs::tree::{Entry, EntryKind};

const BASELINE: &str = include_str!("../../programs/environment-baseline/Pulumi.yaml");
const SAMPLE: &str = include_str!("../../programs/sample-service/Pulumi.yaml");

/// Why the repository could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the built-in programs can't be written to {folder}: {problem}")]
pub struct ProgramsError {
    folder: PathBuf,
    problem: String,
}

/// Writes files as one commit of a new repository, or as the next commit of an old one; the full hash.
pub fn commit(folder: &Path, files: &[(&str, &str)], message: &str) -> Result<CommitHash, ProgramsError> {
    write(folder, files, message)
        .map_err(|e| ProgramsError { folder: folder.to_owned(), problem: e.to_string() })
}

fn write(
    folder: &Path,
    files: &[(&str, &str)],
    message: &str,
) -> Result<CommitHash, Box<dyn std::error::Error + Send + Sync>> {
    let repository = if folder.join("HEAD").exists() || folder.join(".git").exists() {
        gix::open(folder)?
    } else {
        std::fs::create_dir_all(folder)?;
        gix::init_bare(folder)?
    };
    // One level of folders is enough for the programs here.
    let mut folders: std::collections::BTreeMap<&str, gix::objs::Tree> = std::collections::BTreeMap::new();
    for (path, content) in files {
        let (name, file) = path.split_once('/').ok_or("a program lies in a folder")?;
        let oid = repository.write_blob(content)?.detach();
        let entry = Entry { mode: EntryKind::Blob.into(), filename: file.into(), oid };
        folders.entry(name).or_insert_with(gix::objs::Tree::empty).entries.push(entry);
    }
    let mut root = gix::objs::Tree::empty();
    for (name, mut tree) in folders {
        tree.entries.sort();
        let oid = repository.write_object(&tree)?.detach();
        root.entries.push(Entry { mode: EntryKind::Tree.into(), filename: name.into(), oid });
    }
    root.entries.sort();
    let tree = repository.write_object(&root)?.detach();
    let parent = repository.head_id().ok().map(|id| id.detach());
    if let Some(parent) = parent {
        let head = repository.find_commit(parent)?;
        if head.tree_id()?.detach() == tree {
            return Ok(CommitHash::new(parent.to_string())?);
        }
    }
    // The same programs make the same commit on every machine.
    let who = gix::actor::SignatureRef {
        name: "Runtime Cloud".into(),
        email: "programs@localhost".into(),
        time: "0 +0000",
    };
    let commit = repository.commit_as(who, who, "refs/heads/main", message, tree, parent)?;
    Ok(CommitHash::new(commit.detach().to_string())?)
}

/// The product's baseline for environments with a local target.
pub fn baseline(data: &Path) -> Result<Program, ProgramsError> {
    let folder = data.join("programs.git");
    let commit = commit(&folder, &[("environment-baseline/Pulumi.yaml", BASELINE)], "Built-in programs")?;
    Ok(Program {
        repository: folder.to_string_lossy().into_owned(),
        path: "environment-baseline".to_owned(),
        commit,
    })
}

/// The sample of the demo, with a change of its own for each version.
pub fn sample(folder: &Path, greeting: &str) -> Result<Program, ProgramsError> {
    let text = SAMPLE.replace("default: hello", &format!("default: {greeting}"));
    let commit = commit(folder, &[("service/Pulumi.yaml", &text)], &format!("Say {greeting}"))?;
    Ok(Program { repository: folder.to_string_lossy().into_owned(), path: "service".to_owned(), commit })
}
