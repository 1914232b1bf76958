//! `cargo xtask weigh`: what each function weighs, as it would be deployed: its size, what it does before its first
//! message, the memory that it has then, and the connections that its first message still has to open.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cargo::Workspace;
use crate::deploy::{FUNCTIONS, build_functions};
use crate::problem::Stop;
use crate::weigh_stub::Stub;

/// A function that does nothing, to hold the others against.
const NOTHING: &str = "hello";
/// Those whose parts are told.
const TAKEN_APART: &[&str] = &["planner", "inbound-events", "runner", "api"];
/// How many parts are told.
const PARTS: usize = 14;
/// Under valgrind a second is a minute.
const LONGEST: Duration = Duration::from_secs(180);

/// Builds, unless they are in a folder already; weighs and tells.
pub fn run(folder: Option<PathBuf>) -> Result<u8, Stop> {
    let workspace = Workspace::find()?;
    let folder = match folder {
        Some(folder) => folder,
        None => build_functions(
            &workspace,
            None,
            false,
            &["-p", "runtime-cloud-functions", "-p", "runtime-cloud-hello"],
        )?,
    };
    let mut names: Vec<&str> = vec![NOTHING];
    names.extend(FUNCTIONS);
    println!(
        "| function | size, stripped | instructions to the first poll | memory then | first message opens |"
    );
    println!("|---|---|---|---|---|");
    for name in &names {
        let program = folder.join(name);
        let size = stripped(&program)?;
        let sample = sample(&workspace, name)?;
        let plain = start(&program, name, sample.as_deref(), false)?;
        let instructions = start(&program, name, None, true)?.instructions;
        println!(
            "| {name} | {:.2} MB | {} | {:.1} MiB | {} |",
            megabytes(size),
            instructions.map_or("?".to_owned(), |n| format!("{:.1} M", megabytes(n))),
            plain.kibibytes.map_or(0.0, tenth),
            plain.opened.map_or("-".to_owned(), |n| n.to_string()),
        );
    }
    for name in TAKEN_APART {
        apart(&folder.join(name), name)?;
    }
    Ok(0)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn tenth(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}

fn stripped(program: &Path) -> Result<u64, Stop> {
    let copy = program.with_extension("stripped");
    let ended =
        Command::new("strip").arg("-o").arg(&copy).arg(program).status().map_err(Stop::of("strip"))?;
    if !ended.success() {
        return Err(Stop::new(format!("strip {} ended with {ended}", program.display())));
    }
    Ok(fs::metadata(&copy).map_err(Stop::of(copy.display()))?.len())
}

/// The message of `functions/samples`; None where there is none.
fn sample(workspace: &Workspace, name: &str) -> Result<Option<String>, Stop> {
    let folder = workspace.root.join("functions").join("samples");
    let entries = fs::read_dir(&folder).map_err(Stop::of(folder.display()))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}.")))
    };
    let Some(path) = paths.find(is_it) else { return Ok(None) };
    fs::read_to_string(&path).map(Some).map_err(Stop::of(path.display()))
}

#[derive(Default)]
struct Start {
    kibibytes: Option<u64>,
    opened: Option<usize>,
    instructions: Option<u64>,
}

/// Starts a function before a stub of Lambda and of AWS, until it asks for its first message; then gives it one, if
/// there is one.
fn start(program: &Path, name: &str, message: Option<&str>, counted: bool) -> Result<Start, Stop> {
    let stub = Stub::start()?;
    let mut command = if counted {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
        valgrind
    } else {
        Command::new(program.with_extension("stripped"))
    };
    command.env_clear().envs(stub.variables(name)).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(Stop::of(if counted {
        "valgrind (install it from your distribution)".to_owned()
    } else {
        program.display().to_string()
    }))?;
    let mut start = Start::default();
    let begun = stub.polled(LONGEST);
    if begun {
        start.kibibytes = (!counted).then(|| peak(child.id())).flatten();
        if let Some(message) = message {
            let before = stub.opened();
            stub.give(message);
            if !stub.answered(LONGEST) {
                end(&mut child)?;
                return Err(Stop::new(format!("{name} never answered its sample")));
            }
            start.opened = Some(stub.opened() - before);
        }
    }
    let said = end(&mut child)?;
    if !begun {
        return Err(Stop::new(format!("{name} never asked for a message; it said: {said}")));
    }
    start.instructions = said.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse().ok());
    Ok(start)
}

/// Ends it as Lambda does; what it said.
fn end(child: &mut Child) -> Result<String, Stop> {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        std::io::Read::read_to_string(&mut pipe, &mut said).map_err(Stop::of("a function's output"))?;
    }
    child.wait().map_err(Stop::of("a function"))?;
    Ok(said)
}

fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Which crates' code it is made of, by the sizes of its symbols.
fn apart(program: &Path, name: &str) -> Result<(), Stop> {
    let output = Command::new("nm").args(["-S", "-C"]).arg(program).output().map_err(Stop::of("nm"))?;
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.splitn(4, ' ');
        let (_, size, kind, symbol) = (words.next(), words.next(), words.next(), words.next());
        let size = size.and_then(|s| u64::from_str_radix(s, 16).ok());
        if let (Some(size), Some("t" | "T" | "r" | "R" | "d" | "D"), Some(symbol)) = (size, kind, symbol) {
            *parts.entry(part(symbol)).or_default() += size;
        }
    }
    let all: u64 = parts.values().sum();
    let mut parts: Vec<(String, u64)> = parts.into_iter().collect();
    parts.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    println!("\n| part of {name} | MB of code |\n|---|---|");
    for (part, size) in parts.iter().take(PARTS) {
        println!("| {part} | {:.2} |", megabytes(*size));
    }
    let told: u64 = parts.iter().take(PARTS).map(|(_, size)| size).sum();
    println!("| all others | {:.2} |\n| all | {:.2} |", megabytes(all - told), megabytes(all));
    Ok(())
}

/// The crate of a symbol: of `<&mut a::B as c::D>::e` it is `a`.
fn part(symbol: &str) -> String {
    let name = symbol.trim_start_matches(['<', '&', '(', '[', '*']);
    let name = name.strip_prefix("mut ").or_else(|| name.strip_prefix("dyn ")).unwrap_or(name);
    let (first, rest) = name.split_once("::").unwrap_or(("", ""));
    let plain = !first.is_empty() && first.chars().all(|c| c.is_alphanumeric() || c == '_');
    match first {
        // What they are of says more.
        "core" | "alloc" | "std" => match rest.split_once('<') {
            Some((_, of)) if of.contains("::") => part(of),
            _ => "std".to_owned(),
        },
        _ if plain => first.to_owned(),
        _ => "C and others".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_its_crates() {
        assert_eq!(part("hyper_util::client::legacy::x"), "hyper_util");
        assert_eq!(part("<&mut serde_json::de::Deserializer<R> as serde::Deserializer>::f"), "serde_json");
        assert_eq!(part("core::ptr::drop_in_place<cedar_policy::Entity>"), "cedar_policy");
        assert_eq!(part("core::fmt::write"), "std");
        assert_eq!(part("ring_core_0_17_14__x25519_public_from_private"), "C and others");
    }
}
