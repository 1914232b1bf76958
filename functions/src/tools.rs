//! Pulumi, its language hosts and its plugins, from the artifacts bucket by digest to the function's own disk, and
//! verified before each use. They are the one thing that outlives a job there.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use domain::Digest;
use ports::{Artifacts, PortError};
use pulumi::tools::{Origin, PULUMI_VERSION, Tools};
use serde::{Deserialize, Serialize};

/// Which tools there are; named by its own digest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The tools.
    pub files: Vec<ToolFile>,
}

/// One of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFile {
    /// The program's name.
    pub name: String,
    /// Its SHA-256.
    pub digest: Digest,
    /// The plugin folder that it belongs into, as `resource-random-v4.16.0`; None for Pulumi and its language hosts.
    #[serde(default)]
    pub plugin: Option<String>,
}

impl Manifest {
    /// Reads the manifest of that digest.
    pub async fn read(artifacts: &dyn Artifacts, digest: &str) -> Result<Manifest, PortError> {
        let hint = "publish the tools with `cargo xtask publish-tools` and give the digest that it prints";
        let parsed = Digest::parse(digest)
            .ok_or_else(|| PortError::broken(format!("{digest:?} is no digest of a tools manifest"), hint))?;
        let bytes = artifacts.get(&parsed).await?.ok_or_else(|| {
            PortError::broken(format!("tools manifest {digest} is not in the bucket"), hint)
        })?;
        serde_json::from_slice(&bytes)
            .map_err(|e| PortError::broken_by(format!("tools manifest {digest} can't be read: {e}"), hint, e))
    }

    /// Name and SHA-256 of what every plan rests on.
    pub fn digests(&self) -> BTreeMap<String, String> {
        self.files.iter().map(|f| (f.name.clone(), f.digest.to_string())).collect()
    }
}

/// Tools on this function's disk.
pub struct Installed {
    /// Pulumi and its language hosts.
    pub tools: Tools,
    /// The folder of the plugins.
    pub plugins: PathBuf,
    /// The provider of this machine, where it was published: on an emulator alone.
    pub local: Option<PathBuf>,
}

fn disk(error: std::io::Error) -> PortError {
    PortError::unavailable("this function's disk", error)
}

/// A plain file with the right content that can be run; a link to one would be somebody else's to change.
fn is_right(path: &Path, digest: &Digest) -> bool {
    let plain =
        std::fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o777 == 0o500);
    plain && std::fs::read(path).is_ok_and(|bytes| Digest::of(&bytes) == *digest)
}

/// Takes away whatever else lies there: what an earlier job has left could be found as a plugin by the next one.
fn clear_strays(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<(), std::io::Error> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let about = std::fs::symlink_metadata(&path)?;
        if about.is_dir() && wanted.iter().any(|w| w.starts_with(&path) && *w != path) {
            clear_strays(&path, wanted)?;
        } else if about.is_dir() {
            std::fs::remove_dir_all(&path)?;
        } else if !wanted.contains(&path) || !about.is_file() {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Where a tool belongs; its names come from outside.
fn place(folder: &Path, file: &ToolFile) -> Result<PathBuf, PortError> {
    let plain = |part: &str| !part.is_empty() && !part.contains(['/', '\0']) && !part.starts_with('.');
    if !plain(&file.name) || !file.plugin.as_deref().is_none_or(plain) {
        return Err(PortError::broken(format!("tool {:?} has no plain name", file.name), "publish it again"));
    }
    Ok(match &file.plugin {
        None => folder.join("bin").join(&file.name),
        Some(plugin) => folder.join("plugins").join(plugin).join(&file.name),
    })
}

/// Brings all of them to a folder; what is there and right stays, and nothing else does.
pub async fn install(
    artifacts: &dyn Artifacts,
    manifest: &Manifest,
    folder: &Path,
) -> Result<Installed, PortError> {
    let mut wanted = BTreeMap::new();
    for file in &manifest.files {
        wanted.insert(place(folder, file)?, file);
    }
    std::fs::create_dir_all(folder).map_err(disk)?;
    clear_strays(folder, &wanted.keys().cloned().collect()).map_err(disk)?;
    for (path, file) in &wanted {
        if is_right(path, &file.digest) {
            continue;
        }
        let bytes = artifacts.get(&file.digest).await?.ok_or_else(|| {
            PortError::broken(
                format!("tool {} ({}) is not in the bucket", file.name, file.digest),
                "publish the tools again",
            )
        })?;
        if let Some(place) = path.parent() {
            std::fs::create_dir_all(place).map_err(disk)?;
        }
        // Beside the folder: another sandbox on the same disk, as on an emulator, takes it for no stray.
        let part = folder.with_extension(format!("{}.{}.part", std::process::id(), file.digest.short()));
        std::fs::write(&part, bytes).map_err(disk)?;
        std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o500)).map_err(disk)?;
        std::fs::rename(&part, path).map_err(disk)?;
    }
    let bin = folder.join("bin");
    let local = wanted.into_iter().find(|(_, file)| file.name == "pulumi-resource-local");
    let tools = Tools {
        pulumi: bin.join("pulumi"),
        path_dirs: vec![bin],
        version: PULUMI_VERSION,
        digests: manifest.digests(),
        origin: Origin::Cached,
    };
    Ok(Installed { tools, plugins: folder.join("plugins"), local: local.map(|(path, _)| path) })
}
