//! Bringing a service's processes to what is wanted, from whatever there is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LocalError;
use crate::folder::{Cancel, Folder};
use crate::health::Verdict;
use crate::process::{self, Launch, Mark, ProcessId};
use crate::root::{Root, create_private};
use crate::service::record::{Phase, Record, Started};
use crate::service::spec::{Secrets, Spec};
use crate::stop::stop;

/// A command that ends at once is wrong; this long it is watched.
const SETTLE: Duration = Duration::from_millis(150);

/// What shall be, and for whom.
pub(crate) struct Goal<'a> {
    pub(crate) owner: &'a str,
    /// A new resource may not take over another one's service.
    pub(crate) new: bool,
    pub(crate) spec: Spec,
    pub(crate) secrets: Secrets,
    /// The engine's own limit, if it gave one.
    pub(crate) limit: Option<Duration>,
    pub(crate) cancel: &'a Cancel,
}

/// What is, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) record: Record,
    pub(crate) problem: Option<String>,
}

/// The processes that serve: one per replica, of the wanted revision.
pub(crate) fn living(root: &Root, record: &Record) -> Vec<Started> {
    let service = root.service_marker(&record.spec.name);
    let seen = process::living();
    let same_boot = record.boot == process::boot();
    let mut serving: BTreeMap<u32, ProcessId> = BTreeMap::new();
    for started in
        record.processes.iter().filter(|started| same_boot && started.replica < record.spec.replicas)
    {
        // A process may overwrite its environment, so its mark may be gone, but never another's.
        let ours = |mark: &Option<Mark>| match mark {
            Some(mark) => mark.service == service && mark.revision == record.revision,
            None => true,
        };
        if seen.iter().any(|seen| seen.stat.id == started.id && ours(&seen.mark)) {
            serving.insert(started.replica, started.id);
        }
    }
    for seen in &seen {
        let Some(mark) = seen.mark.as_ref().filter(|mark| mark.service == service) else { continue };
        // Children carry the mark too; what we start leads its own session.
        let leads = seen.stat.session == seen.stat.id.pid;
        if leads && mark.revision == record.revision && mark.replica < record.spec.replicas {
            let oldest = serving.entry(mark.replica).or_insert(seen.stat.id);
            let recorded = record.processes.iter().any(|started| started.id == *oldest);
            if !recorded && seen.stat.id.start_time < oldest.start_time {
                *oldest = seen.stat.id;
            }
        }
    }
    serving.into_iter().map(|(replica, id)| Started { replica, id }).collect()
}

/// Makes it so. Safe to repeat after a death at any point.
pub(crate) fn converge(root: &Root, goal: Goal<'_>) -> Result<Outcome, LocalError> {
    let Goal { owner, new, spec, secrets, limit, cancel } = goal;
    let key = root.key()?;
    let folder = Folder::create(&root.service(&spec.name), &spec.name, cancel)?;
    let before: Option<Record> = folder.load()?;
    if let Some(before) = before.as_ref().filter(|before| new && before.owner != owner) {
        return Err(LocalError::Taken { name: spec.name, owner: before.owner.clone() });
    }
    if cancel.is_set() {
        return Err(LocalError::Cancelled);
    }
    let revision = spec.revision(&secrets, &key);
    let mut record = Record {
        owner: owner.to_owned(),
        generation: before.as_ref().map_or(0, |before| before.generation + u32::from(new)),
        phase: Phase::Changing,
        secret_names: secrets.keys().cloned().collect(),
        revision,
        boot: process::boot(),
        processes: Vec::new(),
        spec,
    };
    let known = before.as_ref().filter(|before| before.boot == record.boot);
    record.processes = known.map(|before| before.processes.clone()).unwrap_or_default();
    let same_revision = known.is_none_or(|before| before.revision == record.revision);
    let old: Vec<Started> = record.processes.clone();
    let mut keep = if same_revision { living(root, &record) } else { Vec::new() };
    // What stands there whole and doesn't answer gets a fresh start; all else that lives is kept.
    if before.as_ref().is_some_and(|before| ails(root, before, &record)) {
        keep.clear();
    }
    folder.save(&record)?;

    clear(root, &record, &old, &keep)?;
    record.processes.clone_from(&keep);
    folder.save(&record)?;

    let fresh = before.is_none() && keep.is_empty();
    if let Err(error) = start(root, &folder, &mut record, &secrets) {
        if fresh {
            // A first attempt that didn't work out leaves nothing behind.
            let leaders: Vec<ProcessId> = record.processes.iter().map(|started| started.id).collect();
            let service = root.service_marker(&record.spec.name);
            stop(&record.spec.name, &leaders, |mark| mark.service == service, record.spec.grace())?;
            folder.remove()?;
            return Err(error);
        }
        record.phase = Phase::Unhealthy;
        folder.save(&record)?;
        return Ok(Outcome { record, problem: Some(error.to_string()) });
    }
    let problem = settle(root, &record, limit, cancel).err();
    record.phase = if problem.is_some() { Phase::Unhealthy } else { Phase::Ready };
    record.processes = living(root, &record);
    folder.save(&record)?;
    Ok(Outcome { record, problem })
}

/// True when a service that was complete doesn't answer as it shall from now on. One that was cut off
/// while it started may only need its time.
fn ails(root: &Root, before: &Record, wanted: &Record) -> bool {
    let complete = matches!(before.phase, Phase::Ready | Phase::Unhealthy)
        && u32::try_from(living(root, before).len()).is_ok_and(|living| living == before.spec.replicas);
    // Ports of replicas that are still to come can't answer.
    let mut asked = wanted.clone();
    asked.spec.replicas = before.spec.replicas.min(wanted.spec.replicas);
    complete && !answers(&asked.spec)
}

/// Stops everything of this service but the processes to keep, with their children.
fn clear(root: &Root, record: &Record, old: &[Started], keep: &[Started]) -> Result<(), LocalError> {
    let service = root.service_marker(&record.spec.name);
    let kept = |id: &ProcessId| keep.iter().any(|started| started.id == *id);
    let leaders: Vec<ProcessId> = old.iter().map(|started| started.id).filter(|id| !kept(id)).collect();
    let unwanted = |mark: &Mark| {
        mark.service == service
            && !(mark.revision == record.revision
                && keep.iter().any(|started| started.replica == mark.replica))
    };
    stop(&record.spec.name, &leaders, unwanted, record.spec.grace())?;
    Ok(())
}

fn start(root: &Root, folder: &Folder, record: &mut Record, secrets: &Secrets) -> Result<(), LocalError> {
    let logs = folder.path().join("logs");
    let home = folder.path().join("work");
    create_private(&logs)?;
    create_private(&home)?;
    let directory = match &record.spec.working_directory {
        Some(path) => root.path().join(path),
        None => home.clone(),
    };
    for replica in 0..record.spec.replicas {
        if record.processes.iter().any(|started| started.replica == replica) {
            continue;
        }
        let mark = Mark {
            service: root.service_marker(&record.spec.name),
            replica,
            revision: record.revision.clone(),
        };
        let launch = Launch {
            command: &record.spec.command,
            environment: environment(&record.spec, secrets, &mark, home.clone()),
            directory: &directory,
            log: &logs.join(format!("{replica}.log")),
        };
        let id = process::spawn(launch).map_err(|source| LocalError::Spawn {
            name: record.spec.name.clone(),
            program: record.spec.command.first().cloned().unwrap_or_default(),
            replica,
            source,
        })?;
        record.processes.push(Started { replica, id });
        folder.save(record)?;
    }
    Ok(())
}

/// Nothing of the provider's own environment but where programs are and which language is spoken:
/// it holds the passphrase of the state.
fn environment(spec: &Spec, secrets: &Secrets, mark: &Mark, home: PathBuf) -> Vec<(OsString, OsString)> {
    let ours = |key: &str, otherwise: &str| std::env::var_os(key).unwrap_or_else(|| otherwise.into());
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::from([
        ("PATH".into(), ours("PATH", "/usr/local/bin:/usr/bin:/bin")),
        ("LANG".into(), ours("LANG", "C.UTF-8")),
        ("HOME".into(), home.into()),
    ]);
    for (key, value) in spec.env.iter().chain(secrets) {
        environment.insert(key.into(), value.into());
    }
    environment.insert(process::MARKER.into(), mark.value().into());
    environment.insert(process::REPLICA.into(), mark.replica.to_string().into());
    environment.into_iter().collect()
}

/// Waits until all replicas run and answer.
fn settle(root: &Root, record: &Record, limit: Option<Duration>, cancel: &Cancel) -> Result<(), String> {
    let check = record.spec.check();
    let patience = check.as_ref().map_or(SETTLE, |check| check.timeout);
    let patience = limit.map_or(patience, |limit| patience.min(limit));
    let started = Instant::now();
    loop {
        // By pid and start time: looking through all of /proc each time would be felt with many services.
        let dead: Vec<u32> = record
            .processes
            .iter()
            .filter(|started| !started.id.is_alive())
            .map(|started| started.replica)
            .collect();
        if !dead.is_empty() {
            return Err(format!(
                "replica {} of `{}` ended right after its start: its output is in {}; correct it and run again",
                dead.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
                record.spec.name,
                root.service(&record.spec.name).join("logs").display()
            ));
        }
        let over = started.elapsed() >= patience;
        match (&check, over) {
            (None, true) => return Ok(()),
            (None, false) => {}
            (Some(_), _) => match ask(&record.spec, Duration::from_secs(1)) {
                // A moment for the one that finds its port taken, while another answers there.
                Ok(()) if started.elapsed() >= SETTLE.min(patience) => return Ok(()),
                Ok(()) => {}
                Err(reason) if over || cancel.is_set() => {
                    let waited = started.elapsed().as_secs_f64();
                    return Err(format!(
                        "`{}` runs but is not healthy after {waited:.1} s: {reason}; its output is in {}; correct it and run again",
                        record.spec.name,
                        root.service(&record.spec.name).join("logs").display()
                    ));
                }
                Err(_) => {}
            },
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn ask(spec: &Spec, limit: Duration) -> Result<(), String> {
    let Some(check) = spec.check().filter(|_| spec.replicas > 0) else { return Ok(()) };
    check.probes.iter().try_for_each(|probe| probe.ask(limit))
}

/// How the service is right now.
pub(crate) fn verdict(record: &Record, living: usize) -> Verdict {
    if u32::try_from(living).is_ok_and(|living| living < record.spec.replicas) {
        return Verdict::Unhealthy;
    }
    if record.spec.health.is_none() || record.spec.replicas == 0 {
        return Verdict::Unchecked;
    }
    if answers(&record.spec) { Verdict::Healthy } else { Verdict::Unhealthy }
}

/// Asks for a moment, since one missed answer is no illness.
fn answers(spec: &Spec) -> bool {
    let started = Instant::now();
    while ask(spec, Duration::from_secs(1)).is_err() {
        if started.elapsed() > Duration::from_millis(500) {
            return false;
        }
        thread::sleep(Duration::from_millis(50));
    }
    true
}
