//! Processes that tests left behind. They are known by the tests' own temporary folder, so nobody else's are meant.

use std::path::Path;

/// Ends what still runs in or with a folder of the tests, and says what that was.
#[cfg(target_os = "linux")]
pub fn end(folder: &Path) -> Vec<String> {
    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    use std::time::{Duration, Instant};

    // What is just ending may do so.
    let patience = Instant::now() + Duration::from_secs(3);
    while !found(folder).is_empty() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut ended = Vec::new();
    for pid in found(folder) {
        // Held by a descriptor and looked at again: a number alone may already be another process.
        let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Some(what) = told(pid, folder) else { continue };
        if pidfd_send_signal(&held, Signal::KILL).is_ok() {
            ended.push(what);
        }
    }
    ended
}

#[cfg(not(target_os = "linux"))]
pub fn end(_folder: &Path) -> Vec<String> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn found(folder: &Path) -> Vec<rustix::process::Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids = pids.filter_map(rustix::process::Pid::from_raw);
    pids.filter(|pid| *pid != rustix::process::getpid() && told(*pid, folder).is_some()).collect()
}

/// A process in a sentence, if it belongs to the folder: by what it was told or by where it works. One that has ended
/// and that nobody has waited for has neither.
#[cfg(target_os = "linux")]
fn told(pid: rustix::process::Pid, folder: &Path) -> Option<String> {
    let about = Path::new("/proc").join(pid.as_raw_pid().to_string());
    let read = |name: &str| std::fs::read(about.join(name)).unwrap_or_default();
    let line = read("cmdline");
    let needle = folder.as_os_str().as_encoded_bytes();
    let names = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let inside = ["cwd", "exe"]
        .iter()
        .any(|link| std::fs::read_link(about.join(link)).is_ok_and(|target| target.starts_with(folder)));
    (inside || names(&line) || names(&read("environ"))).then(|| {
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        format!("process {pid}: {}", words.join(" ").trim_end())
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_what_belongs_to_the_folder_is_ended() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sleep =
            |at: &Path| Command::new("sleep").arg("60").current_dir(at).stdin(Stdio::null()).spawn().unwrap();
        let (mut left, mut foreign) = (sleep(ours.path()), sleep(theirs.path()));
        let ended = end(ours.path());
        assert!(matches!(ended.as_slice(), [one] if one.ends_with(": sleep 60")), "{ended:?}");
        assert!(!left.wait().unwrap().success());
        assert!(foreign.try_wait().unwrap().is_none());
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }
}
