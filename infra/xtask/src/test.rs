//! `cargo xtask test`: every test, with what it needs.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cargo::Workspace;
use crate::problem::Stop;
use crate::test_summary::TestSummary;
use crate::{emulator, pulumi, strays};

/// The product's binary, for tests of the whole.
const BINARY_VARIABLE: &str = "RUNTIME_CLOUD_TEST_BINARY";

/// This program, for tests that deploy.
const XTASK_VARIABLE: &str = "RUNTIME_CLOUD_TEST_XTASK";

/// Runs the tests; the exit code is that of cargo.
pub fn run(filters: &[String]) -> Result<u8, Stop> {
    let workspace = Workspace::find()?;
    // All at once and as the tests want it: another selection of packages would build them again.
    let product = pulumi::build(&workspace, &["--workspace", "--all-targets"])?;
    let mut variables = pulumi::get(&product)?.variables()?;
    variables.push((BINARY_VARIABLE, product.clone().into()));
    variables.push((emulator::VARIABLE, emulator::get(&workspace)?.into()));
    // As that build left it: the file from which this program runs may have been replaced by it.
    let this = product.with_file_name(env!("CARGO_PKG_NAME"));
    variables.push((XTASK_VARIABLE, this.into()));

    let temporary =
        tempfile::Builder::new().prefix("rc-").tempdir().map_err(Stop::of("a temporary folder"))?;
    variables.push(("TMPDIR", temporary.path().into()));
    let mut summary = TestSummary::default();
    let ended = run_all(&workspace, filters, &variables, &mut summary);
    for stray in strays::end(temporary.path()) {
        println!("left behind by a test, and ended: {stray}");
    }
    if let Err(error) = temporary.close() {
        println!("temporary data could not be removed: {error}");
    }
    let code = ended?;

    println!("\nSummary");
    if code != 0 && summary.failed == 0 && summary.broken() == 0 {
        println!("cargo test ended with code {code}; see above");
    }
    let nothing = summary.passed + summary.failed + summary.ignored == 0;
    if code == 0 && nothing {
        println!("no test or program of tests has that name: {}", filters.join(" "));
    }
    println!("{summary}");
    Ok(if nothing { code.max(1) } else { code })
}

/// One run of cargo for all tests or, since not every runner takes several filters, one for each filter.
fn run_all(
    workspace: &Workspace,
    filters: &[String],
    variables: &[(&'static str, OsString)],
    summary: &mut TestSummary,
) -> Result<u8, Stop> {
    if filters.is_empty() {
        return cargo_test(workspace, &[], variables, summary);
    }
    let programs = workspace.test_programs()?;
    let mut worst = 0;
    for filter in filters {
        let arguments = match programs.contains(filter) {
            true => vec!["--test", filter, "--", "--show-output"],
            false => vec!["--", filter],
        };
        worst = worst.max(cargo_test(workspace, &arguments, variables, summary)?);
        // A signal ended it, and means all of it.
        if worst > 128 {
            break;
        }
    }
    Ok(worst)
}

fn cargo_test(
    workspace: &Workspace,
    arguments: &[&str],
    variables: &[(&'static str, OsString)],
    summary: &mut TestSummary,
) -> Result<u8, Stop> {
    let mut command = workspace.resolving("test");
    command.args(["--workspace", "--no-fail-fast"]).args(arguments);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    // Colours would stand between the words that are counted.
    command.env("CARGO_TERM_COLOR", "never");
    let ended =
        passed_on(&mut command, io::stdout(), |line| summary.line(line)).map_err(Stop::of("cargo test"))?;
    Ok(code(ended))
}

/// A process's exit code, or 128 and the signal that ended it, as shells have it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Runs a command, passes both its outputs on as they come, in their order, and each line to `line`.
///
/// It has a process group of its own, to which the signals that end this program are passed: so the temporary
/// folder is removed after the tests have ended, and by this program.
fn passed_on(command: &mut Command, to: impl Write, line: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let handle = signals.handle();
    let (output, input) = io::pipe()?;
    let mut child = command.process_group(0).stdout(input.try_clone()?).stderr(input).spawn()?;
    // Else this program's own copies keep the pipe open for ever.
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());

    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let told = Arc::new(AtomicI32::new(0));
    let teller = thread::spawn({
        let told = Arc::clone(&told);
        move || {
            for signal in signals.forever() {
                // Asked twice, it is meant.
                let passed = if told.swap(signal, Ordering::SeqCst) == 0 {
                    Signal::from_named_raw(signal)
                } else {
                    None
                };
                if let Some(group) = group {
                    // It may have ended just now.
                    let _ = kill_process_group(group, passed.unwrap_or(Signal::KILL));
                }
            }
        }
    });
    let read = tee(output, to, line);
    let ended = child.wait();
    handle.close();
    drop(teller.join());
    read?;
    match told.load(Ordering::SeqCst) {
        0 => ended,
        signal => ended.map(|_| ExitStatus::from_raw(signal)),
    }
}

/// Copies what comes as it comes, and cuts it into lines.
fn tee(mut from: PipeReader, mut to: impl Write, mut line: impl FnMut(&str)) -> io::Result<()> {
    let mut chunk = [0; 8192];
    let mut rest = Vec::new();
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => chunk.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(read)?;
        to.flush()?;
        rest.extend_from_slice(read);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let whole: Vec<u8> = rest.drain(..=end).collect();
            line(&String::from_utf8_lossy(&whole));
        }
    }
    line(&String::from_utf8_lossy(&rest));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(script: &str) -> (Vec<String>, u8) {
        let mut lines = Vec::new();
        let mut copy = Vec::new();
        let mut command = Command::new("sh");
        let ended =
            passed_on(command.args(["-c", script]), &mut copy, |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(String::from_utf8(copy).unwrap(), lines.concat());
        (lines, code(ended))
    }

    #[test]
    fn both_outputs_are_read_in_their_order_and_the_code_is_kept() {
        let (lines, code) = lines_of("echo one; echo two >&2; printf three; exit 7");
        assert_eq!(lines, ["one\n", "two\n", "three"]);
        assert_eq!(code, 7);
    }

    #[test]
    fn a_signal_is_a_code_too() {
        assert_eq!(lines_of("kill -KILL $$").1, 137);
    }
}
