//! Running a tool with a time limit, and asking Pulumi for its version.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use semver::Version;

use super::AttemptError;

/// Runs a command, hands every line of its two outputs to `line`, and kills it at the limit.
/// `None` means that it was killed.
pub(super) fn run(
    command: &mut Command,
    limit: Duration,
    mut line: impl FnMut(String),
) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = loop {
        match command.spawn() {
            // Just written, and still open in a process that another thread is starting.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => break other?,
        }
    };
    let (sender, lines) = channel();
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
    ];
    for output in outputs.into_iter().flatten() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for text in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&text).into_owned()).is_err() {
                    break;
                }
            }
        });
    }
    drop(sender);
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(text) => line(text),
            // Both outputs are closed: it has ended or is about to.
            Err(RecvTimeoutError::Disconnected) => return child.wait().map(Some),
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
        }
    }
}

const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// What `pulumi version` says. Nothing of the user's is read or written for it.
pub(super) fn pulumi_version(program: &Path) -> Result<Version, AttemptError> {
    let home = tempfile::tempdir()?;
    let mut command = Command::new(program);
    command.arg("version").env_clear().env("PULUMI_SKIP_UPDATE_CHECK", "true");
    command.env("PULUMI_HOME", home.path()).env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    let mut said = Vec::new();
    let does_not_run = |why: String| AttemptError::DoesNotRun { program: program.to_owned(), why };
    match run(&mut command, VERSION_LIMIT, |line| said.push(line)) {
        Err(error) => Err(does_not_run(error.to_string())),
        Ok(None) => Err(AttemptError::TooSlow { what: "pulumi version".into(), limit: VERSION_LIMIT }),
        Ok(Some(status)) => {
            let version = said.iter().find_map(|line| Version::parse(line.trim().strip_prefix('v')?).ok());
            match version {
                Some(version) if status.success() => Ok(version),
                _ => Err(does_not_run(format!("it says {:?} and ends with {status}", said.join(" ")))),
            }
        }
    }
}
