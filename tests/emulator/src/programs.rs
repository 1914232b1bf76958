//! Finding and awaiting the programs.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of the emulator's programs.
const FOLDER: &str = "RUNTIME_CLOUD_TEST_EMULATOR";

pub(crate) fn program(name: &str) -> PathBuf {
    match std::env::var_os(FOLDER) {
        Some(folder) => PathBuf::from(folder).join(name),
        None => name.into(),
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

pub(crate) fn healthy(url: &str, log: &std::path::Path) {
    let end = Instant::now() + Duration::from_secs(60);
    while ureq::get(url).call().is_err() {
        if Instant::now() > end {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            panic!("{url} never answered; is {FOLDER} right? It said: {said}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until somebody listens.
pub(crate) fn listening(port: u16) {
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "nobody ever listened on port {port}; is {FOLDER} right?");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command that ends with this process, however that ends: it listens whether somebody still holds its input.
pub(crate) fn tied(name: &str) -> Command {
    let program = program(name);
    let found = program.components().count() == 1 || program.is_file();
    assert!(found, "{} is not there; is {FOLDER} right?", program.display());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "\"$0\" \"$@\" </dev/null & p=$!; read -r _; kill $p; wait $p"]).arg(program);
    command.stdin(Stdio::piped());
    command
}
