//! All services below a root, for those who look at it from outside of Pulumi.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::folder::{self, Cancel, Folder};
use crate::health::Verdict;
use crate::process::{self, ProcessId};
use crate::root::Root;
use crate::service::{Phase, Record, living, verdict};
use crate::stop::stop;

/// A service whose processes were stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Its name; empty for processes whose service's folder is gone.
    pub name: String,
    /// The processes that ran, children included.
    pub processes: Vec<ProcessId>,
}

/// How one service is right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// The label of what runs, if it was given one.
    pub version: Option<String>,
    /// How many processes there shall be.
    pub wanted: u32,
    /// Those that there are.
    pub living: Vec<ProcessId>,
    /// Where it is asked for its health.
    pub endpoints: Vec<String>,
    /// What it answered just now.
    pub health: Verdict,
    /// Where its output is.
    pub logs: PathBuf,
}

/// Lists the services below a root, by name. It takes no lock, so it may see a change half done;
/// a service that doesn't answer its health check takes up to two seconds.
pub fn list(root: &Path) -> io::Result<Vec<ServiceStatus>> {
    let Some(root) = existing(root)? else { return Ok(Vec::new()) };
    let mut statuses = Vec::new();
    for folder in folders(&root)? {
        let Some(record) = folder::load::<Record>(&folder)? else { continue };
        let living: Vec<ProcessId> = living(&root, &record).into_iter().map(|started| started.id).collect();
        statuses.push(ServiceStatus {
            health: verdict(&record, living.len()),
            endpoints: record.spec.endpoints(),
            name: record.spec.name,
            version: record.spec.version,
            wanted: record.spec.replicas,
            living,
            logs: folder.join("logs"),
        });
    }
    statuses.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(statuses)
}

/// Stops every process of every service below a root. The records stay, so the next `up` after a
/// refresh starts them again.
pub fn stop_all(root: &Path) -> io::Result<Vec<Stopped>> {
    let Some(root) = existing(root)? else { return Ok(Vec::new()) };
    let cancel = Cancel::default();
    let mut stopped = Vec::new();
    for path in folders(&root)? {
        let label = path.display().to_string();
        let Some(folder) = Folder::open(&path, &label, &cancel)? else { continue };
        let Some(mut record) = folder.load::<Record>()? else { continue };
        let service = root.service_marker(&record.spec.name);
        let mut leaders: Vec<ProcessId> =
            living(&root, &record).into_iter().map(|started| started.id).collect();
        if record.boot == process::boot() {
            leaders.extend(record.processes.iter().map(|started| started.id));
        }
        let processes =
            stop(&record.spec.name, &leaders, |mark| mark.service == service, record.spec.grace())?;
        record.phase = Phase::Stopped;
        record.processes.clear();
        folder.save(&record)?;
        if !processes.is_empty() {
            stopped.push(Stopped { name: record.spec.name, processes });
        }
    }
    // Of services whose folder somebody removed, the mark is all that is left.
    let prefix = format!("{}.", root.marker());
    let processes = stop(
        "services without a record",
        &[],
        |mark| mark.service.starts_with(&prefix),
        Duration::from_secs(5),
    )?;
    if !processes.is_empty() {
        stopped.push(Stopped { name: String::new(), processes });
    }
    Ok(stopped)
}

fn existing(root: &Path) -> io::Result<Option<Root>> {
    if root.try_exists()? { Ok(Some(Root::open(root)?)) } else { Ok(None) }
}

fn folders(root: &Root) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(root.services()) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
