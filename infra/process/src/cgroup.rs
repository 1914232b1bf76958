//! A cgroup v2 of the session's own, where this process may make one; never required.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Starts the name of every cgroup made here, so that a process can tell that it is in one.
const PREFIX: &str = "runtime-cloud-run-";

/// Where cgroup v2 is mounted, and which of its groups appears there as the root.
fn mount() -> Option<(PathBuf, PathBuf)> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    table.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        filesystem.starts_with("cgroup2 ").then(|| (point.into(), root.into()))
    })
}

/// The folder of the cgroup that a process is in.
fn of(process: &str) -> Option<PathBuf> {
    let (point, root) = mount()?;
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let below = Path::new(path).strip_prefix(&root).ok()?;
    Some(point.join(below)).filter(|folder| folder.is_dir())
}

/// Makes the session's cgroup below the caller's own. `None` where that is not allowed.
pub(crate) fn create(marker: &str) -> Option<PathBuf> {
    let safe: String = marker.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let folder = of("self")?.join(format!("{PREFIX}{safe}-{}", std::process::id()));
    fs::create_dir(&folder).ok()?;
    let usable = folder.join("cgroup.kill").exists() && entrance(&folder).is_ok();
    if !usable {
        let _ = fs::remove_dir(&folder);
    }
    usable.then_some(folder)
}

/// The file through which a process enters: it writes "0" there.
pub(crate) fn entrance(folder: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(folder.join("cgroup.procs"))
}

/// The cgroup above the session's, for a process that wants to leave the session.
pub(crate) fn outside() -> Option<PathBuf> {
    let own = of("self")?;
    let ours = own.ancestors().find(|folder| {
        folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
    })?;
    ours.parent().map(Path::to_owned)
}

/// True when no process is in the cgroup or below it; a cgroup that is gone is empty.
pub(crate) fn is_empty(folder: &Path) -> io::Result<bool> {
    match fs::read_to_string(folder.join("cgroup.events")) {
        Ok(events) => Ok(events.lines().any(|line| line == "populated 0")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        // Removed between the opening and the reading.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The pids in the cgroup and below it.
pub(crate) fn pids(folder: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    if let Ok(list) = fs::read_to_string(folder.join("cgroup.procs")) {
        found.extend(list.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(pids(&entry.path()));
        }
    }
    found
}

/// Kills everything in the cgroup at one stroke: nothing can fork its way out.
pub(crate) fn kill(folder: &Path) {
    let _ = fs::write(folder.join("cgroup.kill"), "1");
}

/// Takes the empty cgroup away, inner ones first.
pub(crate) fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}
