//! What a runner elsewhere has left, where a runner of this machine would have left it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use domain::Digest;
use ports::PortError;

use crate::about::{ABOUT, About};
use crate::job_files::{FILES, JobFiles, Result as Left, part};
use crate::workspace::{self, Workspace};

/// A job's files on this machine.
pub(crate) struct Fetched {
    pub workspace: Workspace,
    pub session: PathBuf,
    pub about: About,
}

/// Brings them into a folder. Err: they aren't what a runner leaves, and nobody can tell what it did.
pub(crate) async fn fetch(
    files: &JobFiles<'_>,
    root: &Path,
    left: &Left,
) -> Result<Result<Fetched, String>, PortError> {
    let fetched = brought(files, root, left).await;
    if !matches!(fetched, Ok(Ok(_))) {
        drop(std::fs::remove_dir_all(root));
    }
    fetched
}

async fn brought(
    files: &JobFiles<'_>,
    root: &Path,
    left: &Left,
) -> Result<Result<Fetched, String>, PortError> {
    let workspace = Workspace::create(root.join("work")).map_err(disk)?;
    let session = root.join("session");
    std::fs::create_dir_all(&session).map_err(disk)?;
    for (path, digest) in &left.files {
        let bytes = files.get(&format!("{FILES}/{}", part(path))).await?;
        let Some(bytes) = bytes.filter(|b| Digest::of(b) == *digest) else {
            return Ok(Err(format!("file {path} of its job is missing, or isn't what its runner left")));
        };
        // A path that leaves its folder is nobody's.
        let plain = path.split('/').all(|p| !p.is_empty() && p != "." && p != "..");
        let Some(file) = plain.then(|| root.join(path)) else { continue };
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(disk)?;
        }
        workspace::write(&file, &bytes).map_err(disk)?;
    }
    Ok(about(&workspace)?.map(|about| Fetched { workspace, session, about }))
}

fn about(workspace: &Workspace) -> Result<Result<About, String>, PortError> {
    let bytes = match std::fs::read(workspace.root.join(ABOUT)) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Ok(Err("its job doesn't say what it was".to_owned()));
        }
        read => read.map_err(disk)?,
    };
    let about: About = match serde_json::from_slice(&bytes) {
        Ok(about) => about,
        Err(e) => return Ok(Err(format!("its job doesn't say what it was: {e}"))),
    };
    // They become a path, and whoever wrote them ran a program.
    let plain = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
    if plain(&about.project) && plain(&about.stack) {
        return Ok(Ok(about));
    }
    Ok(Err("its job names no project and stack of Pulumi".to_owned()))
}

/// A disk that is full, or gone.
pub(crate) fn disk(error: std::io::Error) -> PortError {
    PortError::unavailable("this function's disk", error)
}
