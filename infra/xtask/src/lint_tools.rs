//! Programs that the lint needs beyond the toolchain's. What is missing is built once into the target folder.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cargo::Workspace;
use crate::problem::Stop;

/// A program from the registry. The version is pinned: another one finds other things.
pub struct LintTool {
    name: &'static str,
    version: &'static str,
}

/// Licences, sources and refused crates.
pub const DENY: LintTool = LintTool { name: "cargo-deny", version: "0.20.2" };

/// Unused dependencies.
pub const MACHETE: LintTool = LintTool { name: "cargo-machete", version: "0.9.2" };

impl LintTool {
    /// Where it is; built first if it is not there.
    pub fn find_or_build(&self, workspace: &Workspace) -> Result<PathBuf, Stop> {
        let folder = workspace.target.join("tools");
        let built = folder.join("bin").join(self.name);
        for program in [built.clone(), PathBuf::from(self.name)] {
            if self.is(&program) {
                return Ok(program);
            }
        }
        eprintln!("building {} {} into {} ...", self.name, self.version, folder.display());
        let artefacts = folder.join("build");
        let status = workspace
            .cargo("install")
            .args([self.name, "--version", self.version, "--locked", "--force", "--quiet"])
            // Unoptimised: it runs for seconds, but would be built for minutes.
            .args(["--debug", "--root"])
            .arg(&folder)
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_TARGET_DIR", &artefacts)
            .status()
            .map_err(Stop::of("cargo install"))?;
        // Hundreds of megabytes that nobody needs again; if they stay, nothing breaks.
        drop(std::fs::remove_dir_all(&artefacts));
        if status.success() {
            Ok(built)
        } else {
            let (name, version) = (self.name, self.version);
            Err(Stop::new(format!(
                "{name} {version} could not be built; see above, or install it: cargo install --locked {name}@{version}"
            )))
        }
    }

    fn is(&self, program: &PathBuf) -> bool {
        let said = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        said.is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout).split_whitespace().any(|word| word == self.version)
        })
    }
}
