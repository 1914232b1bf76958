//! The AWS emulator and its proxy for the tests, and the tools that deploy: programs of the Python package index, in an
//! environment of their own below the target folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::Workspace;
use crate::problem::Stop;

/// The folder of their programs, for the tests.
pub const VARIABLE: &str = "RUNTIME_CLOUD_TEST_EMULATOR";

/// What is installed; pinned, as another version behaves otherwise.
const EMULATOR: &[&str] =
    &["ministack[full]==1.5.33", "microburst==0.10.0", "cfn-lint==1.58.0", "cargo-lambda==1.9.2"];
/// Apart from them: it asks for other versions of what they need.
const COMMAND_LINE: &[&str] = &["awscli==1.46.3"];
/// The programs that have to be there then.
const PROGRAMS: &[&str] = &["ministack", "microburst", "aws", "cfn-lint", "cargo-lambda"];

/// The folder of the programs; they are installed first where they are missing.
pub fn get(workspace: &Workspace) -> Result<PathBuf, Stop> {
    if let Some(chosen) = env::var_os(VARIABLE).map(PathBuf::from) {
        return complete(&chosen)
            .then_some(chosen)
            .ok_or_else(|| Stop::new(format!("{VARIABLE} names a folder without {}", PROGRAMS.join(", "))));
    }
    let folder = workspace.target.join("tools").join("emulator");
    let programs = folder.join("bin");
    // Programs of an earlier pin have the same names.
    let (stamp, pins) = (folder.join("pins"), [EMULATOR, COMMAND_LINE].concat().join("\n"));
    if complete(&programs) && fs::read_to_string(&stamp).is_ok_and(|found| found == pins) {
        return Ok(programs);
    }
    eprintln!("getting the AWS emulator ready, once ...");
    install(&folder, EMULATOR)?;
    let apart = workspace.target.join("tools").join("aws");
    install(&apart, COMMAND_LINE)?;
    let link = programs.join("aws");
    std::os::unix::fs::symlink(apart.join("bin").join("aws"), &link).map_err(Stop::of(link.display()))?;
    if complete(&programs) {
        fs::write(&stamp, pins).map_err(Stop::of(stamp.display()))?;
        return Ok(programs);
    }
    Err(Stop::new(format!("pip installed no {} into {}", PROGRAMS.join(", "), programs.display())))
}

fn install(folder: &Path, packages: &[&str]) -> Result<(), Stop> {
    let python = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    run(Command::new(&python).args(["-m", "venv", "--clear"]).arg(folder), "python3 -m venv")?;
    let mut pip = Command::new(folder.join("bin").join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    run(&mut pip, "pip install")
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

/// The emulator's usual port.
pub const PORT: u16 = 4566;

/// Runs the emulator on this machine alone, until it is ended; nothing of it outlives it.
pub fn serve(port: u16) -> Result<u8, Stop> {
    let programs = get(&Workspace::find()?)?;
    let folder = tempfile::Builder::new().prefix("runtime-cloud-emulator-").tempdir();
    let folder = folder.map_err(Stop::of("a temporary folder"))?;
    let url = format!("http://127.0.0.1:{port}");
    let keep = |name: &str| env::var_os(name).unwrap_or_default();
    let port = port.to_string();
    eprintln!("the emulator is at {url}; it keeps nothing, and Ctrl-C ends it");
    // Functions are its children, and inherit all of this.
    let ended = Command::new(programs.join("ministack"))
        .env_clear()
        .envs([("PATH", keep("PATH")), ("HOME", keep("HOME"))])
        .env("TMPDIR", folder.path())
        .envs([("BIND_HOST", "127.0.0.1"), ("GATEWAY_PORT", &*port), ("EDGE_PORT", &*port)])
        .envs([("IOT_MTLS_ENABLED", "0"), ("SFTP_ENABLED", "0"), ("LOG_LEVEL", "WARNING")])
        .envs([("AWS_ENDPOINT_URL", &*url), ("NO_COLOR", "1")])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .status()
        .map_err(Stop::of("ministack"))?;
    if ended.success() || ended.code().is_none() {
        return Ok(0);
    }
    Err(Stop::new(format!("the emulator ended with {ended}; is port {port} free?")))
}
