//! Running cargo on this workspace.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Metadata, MetadataCommand};

use crate::problem::Stop;

/// The program whose binary the tests and Pulumi's installation use.
pub const PRODUCT: &str = "runtime-cloud";

/// The workspace, and how cargo is called on it.
pub struct Workspace {
    /// Its folder.
    pub root: PathBuf,
    /// Where artefacts go.
    pub target: PathBuf,
    cargo: OsString,
    locked: bool,
}

impl Workspace {
    /// The workspace that this program was built from.
    pub fn find() -> Result<Workspace, Stop> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // In CI a lock file that would have to change is a mistake; a developer's may change as they work.
        let locked = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false");
        let workspace = Workspace { root: PathBuf::new(), target: PathBuf::new(), cargo, locked };
        let metadata = workspace.read(true)?;
        Ok(Workspace {
            root: metadata.workspace_root.into_std_path_buf(),
            target: metadata.target_directory.into_std_path_buf(),
            ..workspace
        })
    }

    /// The names of the members' programs of tests.
    pub fn test_programs(&self) -> Result<BTreeSet<String>, Stop> {
        let targets = self.read(true)?.packages.into_iter().flat_map(|package| package.targets);
        Ok(targets.filter(cargo_metadata::Target::is_test).map(|target| target.name).collect())
    }

    /// All members and everything that they depend on.
    pub fn metadata(&self) -> Result<Metadata, Stop> {
        self.read(false)
    }

    fn read(&self, members_only: bool) -> Result<Metadata, Stop> {
        let mut command = MetadataCommand::new();
        // As cargo tells it now: a target folder may be shared by several clones.
        let package =
            std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        command.cargo_path(&self.cargo).manifest_path(Path::new(&package).join("Cargo.toml"));
        if members_only {
            command.no_deps();
        }
        command
            .exec()
            .map_err(|error| Stop::new(format!("cargo can't tell what the workspace holds: {error}")))
    }

    /// A cargo command in the workspace's folder, without standard input.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(&self.root).arg(subcommand).stdin(Stdio::null());
        // Cargo told this program, or the test that began it, what it was built from. Build scripts that look at the
        // same names would take that for a change, and much would be built again.
        for (name, _) in std::env::vars_os() {
            let told = name.to_string_lossy();
            if told.starts_with("CARGO_PKG_") || told.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }

    /// The same, for subcommands that resolve dependencies.
    pub fn resolving(&self, subcommand: &str) -> Command {
        let mut command = self.cargo(subcommand);
        if self.locked {
            command.arg("--locked");
        }
        command
    }
}
