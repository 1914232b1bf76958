//! `cargo xtask package`: the root file system of the runner's image: the runner, the libraries that it was linked
//! with, trusted roots, and nothing else. `functions/Dockerfile` wraps it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::Workspace;
use crate::deploy;
use crate::problem::Stop;

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What the runner is built for; None for this machine.
    pub target: Option<String>,
    /// An unoptimised runner.
    pub development: bool,
    /// The file of trusted roots.
    pub certificates: PathBuf,
}

impl Default for Wanted {
    fn default() -> Wanted {
        let certificates = PathBuf::from("/etc/ssl/certs/ca-certificates.crt");
        Wanted { target: None, development: false, certificates }
    }
}

impl Wanted {
    /// Reads its options.
    pub fn parse(arguments: &[String]) -> Result<Wanted, Stop> {
        let mut wanted = Wanted::default();
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            let mut value =
                || rest.next().cloned().ok_or_else(|| Stop::new(format!("package {option} needs a value")));
            match option.as_str() {
                "--development" => wanted.development = true,
                "--target" => wanted.target = Some(value()?),
                "--certificates" => wanted.certificates = value()?.into(),
                _ => return Err(Stop::new(format!("package knows no {option}"))),
            }
        }
        let foreign = wanted.target.as_deref().filter(|t| !deploy::is_ours(t) && !t.contains("musl"));
        if let Some(target) = foreign {
            return Err(Stop::new(format!(
                "a runner for {target} needs libraries that this machine doesn't have and ldd can't name: give a musl \
                 target, which needs none, or package on a machine like the target"
            )));
        }
        Ok(wanted)
    }
}

/// Folders that have to be there.
const FOLDERS: &[&str] = &["bin", "dev", "etc/ssl/certs", "proc", "tmp", "usr/bin"];
/// Where the roots stand in the image, and in template.yaml.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// The user of the task, by number and by name: Git and Pulumi ask who they are.
const USERS: &str = "runner:x:65532:65532:runner:/tmp:/bin/false\n";

/// Builds it; says where it lies.
pub fn run(wanted: &Wanted) -> Result<u8, Stop> {
    let workspace = Workspace::find()?;
    let runner = deploy::build_functions(
        &workspace,
        wanted.target.as_deref(),
        wanted.development,
        deploy::FUNCTIONS_ALONE,
    )?
    .join("runner");
    let root = workspace.root.join("target").join("package").join("rootfs");
    if root.exists() {
        fs::remove_dir_all(&root).map_err(Stop::of(root.display()))?;
    }
    for folder in FOLDERS {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).map_err(Stop::of(folder.display()))?;
    }
    put(&runner, &root.join("runner"))?;
    deploy::strip(&root.join("runner"));
    for library in libraries(&runner)? {
        let inside = library.strip_prefix("/").unwrap_or(&library);
        put(&library, &root.join(inside))?;
    }
    put(&wanted.certificates, &root.join(CERTIFICATES))?;
    fs::write(root.join("etc/passwd"), USERS).map_err(Stop::of("etc/passwd"))?;
    let all = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(root.join("tmp"), all).map_err(Stop::of("tmp"))?;
    println!("{}", root.display());
    eprintln!("docker build --file functions/Dockerfile {}", root.parent().unwrap_or(&root).display());
    Ok(0)
}

fn put(from: &Path, to: &Path) -> Result<(), Stop> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(Stop::of(folder.display()))?;
    }
    // A link is followed: what it leads to is what is needed.
    fs::copy(from, to).map(drop).map_err(Stop::of(from.display()))
}

/// The libraries that a program loads; none where it has all in it.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Stop> {
    let asked = Command::new("ldd").arg(program).output().map_err(Stop::of("ldd"))?;
    let said = String::from_utf8_lossy(&asked.stdout);
    let refused = String::from_utf8_lossy(&asked.stderr);
    if said.contains("statically linked") || refused.contains("not a dynamic executable") {
        return Ok(vec![]);
    }
    if !asked.status.success() {
        let hint = "build it for a musl target, which needs no libraries";
        return Err(Stop::new(format!("ldd can't read {}: {hint}", program.display())));
    }
    loaded(&said)
}

/// Reads what ldd prints: `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`; what the kernel brings has no path.
fn loaded(said: &str) -> Result<Vec<PathBuf>, Stop> {
    let mut found = vec![];
    for line in said.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if line.contains("not found") {
            return Err(Stop::new(format!("a library of the runner is missing: {line}")));
        }
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = path.split_whitespace().next().unwrap_or_default();
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_program_are_read() {
        let said = "\tlinux-vdso.so.1 (0x0000)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00)\n\t/lib64/ld-linux-x86-64.so.2 (0x0)\n";
        let found = loaded(said).map_err(|e| e.to_string());
        let wanted = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(found, Ok(wanted.to_vec()));
        let missing = loaded("\tlibz.so.1 => not found\n").map_err(|e| e.to_string());
        assert!(missing.is_err_and(|e| e.contains("libz.so.1")));
    }
}
