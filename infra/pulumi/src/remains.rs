//! What stays of a run after its end: the dead copy of its state, watched for a zombie that still writes into it.

use std::path::Path;
use std::time::Duration;

use domain::Digest;
use events::{EnvironmentId, ProvisioningRunId, TenantId};

use crate::about::{ABOUT, About};
use crate::workspace::{self, Workspace};

/// How long a dead copy of a state is watched.
const WATCHED: Duration = Duration::from_secs(7 * 24 * 3600);

/// A dead copy that changed after its end.
type Zombie = (TenantId, EnvironmentId, ProvisioningRunId, String);

/// Keeps the private copy of the state and its digest; the rest goes. A folder in which nothing can have run goes
/// as a whole.
pub(crate) fn watch_dead_copy(workspace: &Workspace) -> std::io::Result<()> {
    if workspace.ended().exists() {
        return Ok(());
    }
    let about = workspace.root.join(ABOUT);
    if !about.exists() {
        return workspace.remove();
    }
    let mut about: About = serde_json::from_slice(&std::fs::read(about)?)?;
    let state = std::fs::read(workspace.checkpoint(&about.project, &about.stack)).unwrap_or_default();
    about.ended = Some(Digest::of(&state));
    for folder in [workspace.worktree(), workspace.home(), workspace.tmp()] {
        match std::fs::remove_dir_all(folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
    }
    workspace::write(&workspace.ended(), &serde_json::to_vec(&about)?)
}

/// Dead copies of a folder that changed after their end; those that were watched long enough go.
pub(crate) fn zombies(folder: &Path) -> std::io::Result<Vec<Zombie>> {
    let mut found = vec![];
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let workspace = Workspace { root: entry?.path() };
        let Ok(bytes) = std::fs::read(workspace.ended()) else { continue };
        let about: About = serde_json::from_slice(&bytes).map_err(std::io::Error::other)?;
        let state = std::fs::read(workspace.checkpoint(&about.project, &about.stack)).unwrap_or_default();
        if about.ended.as_ref() != Some(&Digest::of(&state)) {
            let seen = "the copy of its state changed after it had ended: somebody still works in it";
            found.push((about.tenant, about.environment, about.run, seen.to_owned()));
        } else if std::fs::metadata(workspace.ended())?.modified()?.elapsed().is_ok_and(|age| age > WATCHED) {
            workspace.remove()?;
        }
    }
    Ok(found)
}
