//! The AWS emulator and its proxy for the tests, and the tools that deploy: programs of the Python package index, in an
//! environment of their own below the target folder.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::Workspace;
use crate::problem::Stop;

/// The folder of their programs, for the tests.
pub const VARIABLE: &str = "RUNTIME_CLOUD_TEST_EMULATOR";

/// What is installed; pinned, as another version behaves otherwise.
const PACKAGES: &[&str] =
    &["ministack[full]==1.5.33", "microburst==0.10.0", "awscli==1.45.106", "cfn-lint==1.58.0"];
/// The programs that have to be there then.
const PROGRAMS: &[&str] = &["ministack", "microburst", "aws", "cfn-lint"];

/// The folder of the programs; they are installed first where they are missing.
pub fn get(workspace: &Workspace) -> Result<PathBuf, Stop> {
    if let Some(chosen) = env::var_os(VARIABLE).map(PathBuf::from) {
        return complete(&chosen)
            .then_some(chosen)
            .ok_or_else(|| Stop::new(format!("{VARIABLE} names a folder without {}", PROGRAMS.join(", "))));
    }
    let folder = workspace.target.join("tools").join("emulator");
    let programs = folder.join("bin");
    if complete(&programs) {
        return Ok(programs);
    }
    eprintln!("getting the AWS emulator ready, once ...");
    let python = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    run(Command::new(&python).args(["-m", "venv", "--clear"]).arg(&folder), "python3 -m venv")?;
    let mut pip = Command::new(programs.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    run(&mut pip, "pip install")?;
    if complete(&programs) {
        return Ok(programs);
    }
    Err(Stop::new(format!("pip installed no {} into {}", PROGRAMS.join(", "), programs.display())))
}

fn complete(folder: &Path) -> bool {
    PROGRAMS.iter().all(|name| folder.join(name).is_file())
}

fn run(command: &mut Command, what: &str) -> Result<(), Stop> {
    let status = command.stdin(Stdio::null()).status().map_err(Stop::of(what))?;
    if status.success() {
        return Ok(());
    }
    Err(Stop::new(format!("{what} ended with {status}; it needs Python 3.11 or newer and the package index")))
}
