//! `cargo xtask lint`: everything that CI refuses, the quickest first. All checks run, whatever the ones before
//! them found.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cargo::Workspace;
use crate::lint_tools::{DENY, MACHETE};
use crate::problem::{Problem, Stop};
use crate::{architecture, diagnostics, sources};

/// Runs all checks; 1 if any found something.
pub fn run(advisories: bool) -> Result<u8, Stop> {
    let workspace = Workspace::find()?;
    let mut report = Report::default();
    report.check("sources", || read_sources(&workspace));
    report.check("architecture", || architecture::check(&workspace.metadata()?));
    report.check("rustfmt", || rustfmt(&workspace));
    report.check("unused dependencies", || machete(&workspace));
    report
        .check("licences, sources and refused crates", || deny(&workspace, &["bans", "licenses", "sources"]));
    if advisories {
        report.check("known vulnerabilities", || deny(&workspace, &["advisories"]));
    }
    report.check("clippy", || clippy(&workspace));
    println!("{}", report.last_line());
    Ok(u8::from(report.refuses()))
}

#[derive(Default)]
struct Report {
    problems: usize,
    /// Checks that could not be made.
    stopped: usize,
}

impl Report {
    fn check(&mut self, name: &str, check: impl FnOnce() -> Result<Vec<Problem>, Stop>) {
        let started = Instant::now();
        let found = check();
        let seconds = started.elapsed().as_secs_f32();
        match found {
            Ok(problems) if problems.is_empty() => println!("{name}: nothing ({seconds:.1} s)"),
            Ok(problems) => {
                for problem in &problems {
                    println!("{problem}");
                }
                println!("{name}: {} to correct ({seconds:.1} s)", problems.len());
                self.problems += problems.len();
            }
            Err(stop) => {
                println!("{name}: could not be checked: {stop}");
                self.stopped += 1;
            }
        }
    }

    fn refuses(&self) -> bool {
        self.problems + self.stopped > 0
    }

    fn last_line(&self) -> String {
        match (self.problems, self.stopped) {
            (0, 0) => "lint: nothing to correct".to_owned(),
            (problems, 0) => format!("lint: {problems} to correct"),
            (problems, stopped) => format!("lint: {problems} to correct, {stopped} checks could not be made"),
        }
    }
}

fn read_sources(workspace: &Workspace) -> Result<Vec<Problem>, Stop> {
    let found = sources::check(&workspace.root, &sources::read(&workspace.root)?);
    for warning in &found.warnings {
        println!("{warning} (a warning)");
    }
    Ok(found.problems)
}

fn rustfmt(workspace: &Workspace) -> Result<Vec<Problem>, Stop> {
    let (ended_well, said) =
        output(workspace.cargo("fmt").args(["--all", "--", "--check", "--color", "never"]))?;
    told("cargo fmt", ended_well, diagnostics::rustfmt(&workspace.root, &String::from_utf8_lossy(&said)))
}

fn machete(workspace: &Workspace) -> Result<Vec<Problem>, Stop> {
    let program = MACHETE.find_or_build(workspace)?;
    let mut command = Command::new(program);
    command.current_dir(&workspace.root).arg("--skip-target-dir").stdin(Stdio::null()).stderr(Stdio::null());
    let (ended_well, said) = output(&mut command)?;
    let text = |path: &Path| fs::read_to_string(workspace.root.join(path)).unwrap_or_default();
    told("cargo-machete", ended_well, diagnostics::machete(&String::from_utf8_lossy(&said), text))
}

fn deny(workspace: &Workspace, what: &[&str]) -> Result<Vec<Problem>, Stop> {
    let program = DENY.find_or_build(workspace)?;
    let mut command = Command::new(program);
    command.current_dir(&workspace.root).args(["--format", "json", "check"]).args(what).stdin(Stdio::null());
    // It says everything on its standard error.
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(Stop::of("cargo-deny"))?;
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut said).map_err(Stop::of("cargo-deny"))?;
    }
    let ended_well = child.wait().map_err(Stop::of("cargo-deny"))?.success();
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock")).unwrap_or_default();
    let problems = diagnostics::deny(&said, &lock);
    if !ended_well && problems.is_empty() {
        eprintln!("{said}");
    }
    told("cargo-deny", ended_well, problems)
}

fn clippy(workspace: &Workspace) -> Result<Vec<Problem>, Stop> {
    let mut command = workspace.resolving("clippy");
    command.args(["--workspace", "--all-targets", "--message-format=json", "--", "-D", "warnings"]);
    let (ended_well, said) = output(&mut command)?;
    let (problems, pictures): (Vec<_>, Vec<_>) = diagnostics::clippy(&said).into_iter().unzip();
    for picture in pictures {
        println!("{picture}");
    }
    told("cargo clippy", ended_well, problems)
}

/// Whether a command ended well, and what it wrote to its standard output.
fn output(command: &mut Command) -> Result<(bool, Vec<u8>), Stop> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdout(Stdio::piped()).spawn().and_then(|child| child.wait_with_output());
    output.map(|output| (output.status.success(), output.stdout)).map_err(Stop::of(name))
}

/// A program that fails without saying where has not checked anything.
fn told(program: &str, ended_well: bool, problems: Vec<Problem>) -> Result<Vec<Problem>, Stop> {
    if !ended_well && problems.is_empty() {
        return Err(Stop::new(format!("{program} failed; see what it said above")));
    }
    Ok(problems)
}
