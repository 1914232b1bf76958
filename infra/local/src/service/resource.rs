//! The service as Pulumi sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::LocalError;
use crate::folder::{Cancel, Folder};
use crate::health::Verdict;
use crate::process::{self, ProcessId};
use crate::property::{GENERATION, Properties, Property, generation};
use crate::provider::Done;
use crate::root::Root;
use crate::service::converge::{Goal, Outcome, converge, living, verdict};
use crate::service::record::{Phase, Record, Started};
use crate::service::spec::{Secrets, Spec};
use crate::stop::stop;

/// Makes the service, or adopts what an earlier attempt left of it.
pub(crate) fn create(
    root: &Root,
    urn: &str,
    inputs: Properties,
    limit: Option<Duration>,
    cancel: &Cancel,
) -> Result<Done, LocalError> {
    apply(root, urn, inputs, limit, cancel, true)
}

/// Changes the service; its processes are started anew only if something changed that they were given.
pub(crate) fn update(
    root: &Root,
    urn: &str,
    inputs: Properties,
    limit: Option<Duration>,
    cancel: &Cancel,
) -> Result<Done, LocalError> {
    apply(root, urn, inputs, limit, cancel, false)
}

fn apply(
    root: &Root,
    urn: &str,
    mut inputs: Properties,
    limit: Option<Duration>,
    cancel: &Cancel,
    new: bool,
) -> Result<Done, LocalError> {
    let (spec, secrets) = Spec::from_inputs(&inputs)?;
    // They go into the state from here, so nothing depends on the engine having wrapped them.
    if let Some(value) = inputs.remove("secretEnv") {
        inputs.insert("secretEnv".to_owned(), value.into_secret());
    }
    let Outcome { record, problem } = converge(root, Goal { owner: urn, new, spec, secrets, limit, cancel })?;
    let verdict = match (&problem, record.phase) {
        (Some(_), _) => Verdict::Unhealthy,
        _ if record.spec.health.is_some() => Verdict::Healthy,
        _ => Verdict::Unchecked,
    };
    let outputs = outputs(root, &record, &record.processes, verdict, inputs.clone());
    Ok(Done { id: record.spec.name.clone(), inputs, outputs, problem })
}

/// The outputs as far as they can be told before anything is done.
pub(crate) fn preview(root: &Root, inputs: Properties) -> Properties {
    let mut outputs = inputs;
    let spec = Spec::from_inputs(&outputs).ok().map(|(spec, _)| spec);
    for key in ["pids", "endpoint", "endpoints", "logDirectory", "status", GENERATION] {
        outputs.insert(key.to_owned(), Property::Unknown);
    }
    if let Some(spec) = spec.filter(|_| !outputs.get("health").is_some_and(Property::has_unknown)) {
        outputs.extend(places(root, &spec));
    }
    outputs
}

fn places(root: &Root, spec: &Spec) -> Properties {
    let endpoints = spec.endpoints();
    let logs = root.service(&spec.name).join("logs");
    Properties::from([
        ("endpoint".to_owned(), Property::text(endpoints.first().cloned().unwrap_or_default())),
        ("endpoints".to_owned(), Property::List(endpoints.into_iter().map(Property::Text).collect())),
        ("logDirectory".to_owned(), Property::text(logs.display().to_string())),
    ])
}

fn outputs(
    root: &Root,
    record: &Record,
    living: &[Started],
    verdict: Verdict,
    inputs: Properties,
) -> Properties {
    let mut outputs = inputs;
    outputs.extend(places(root, &record.spec));
    let pids = living
        .iter()
        .map(|started| {
            Property::Map(Properties::from([
                ("replica".to_owned(), Property::Number(f64::from(started.replica))),
                ("pid".to_owned(), Property::Number(f64::from(started.id.pid))),
                // A string, since a number of Pulumi's can't hold all of it.
                ("startTime".to_owned(), Property::Text(started.id.start_time.to_string())),
            ]))
        })
        .collect();
    outputs.insert("pids".to_owned(), Property::List(pids));
    let status = match verdict {
        Verdict::Unhealthy if living.is_empty() => "stopped",
        Verdict::Unhealthy
            if u32::try_from(living.len()).is_ok_and(|living| living < record.spec.replicas) =>
        {
            "degraded"
        }
        Verdict::Unhealthy => "unhealthy",
        Verdict::Healthy | Verdict::Unchecked => "running",
    };
    outputs.insert("status".to_owned(), Property::text(status));
    outputs.insert(GENERATION.to_owned(), Property::Number(f64::from(record.generation)));
    outputs
}

/// What is really there; none when there is no such service.
pub(crate) fn read(
    root: &Root,
    name: &str,
    state: &Properties,
    cancel: &Cancel,
) -> Result<Option<Done>, LocalError> {
    let Some(folder) = Folder::open(&root.service(name), name, cancel)? else { return Ok(None) };
    let Some(record) = folder.load::<Record>()? else { return Ok(None) };
    let living = living(root, &record);
    let verdict = verdict(&record, living.len());
    drop(folder);

    let mut inputs = record.spec.to_inputs();
    // Dead replicas must show in the inputs: a difference in outputs only is no drift to the engine.
    let count = u32::try_from(living.len()).unwrap_or(record.spec.replicas);
    inputs.insert("replicas".to_owned(), Property::Number(f64::from(count)));
    if let Some(secrets) = secrets(&record, &living, state, &root.key()?) {
        inputs.insert("secretEnv".to_owned(), secrets.into_secret());
    }
    let problem = match (verdict, record.phase) {
        (Verdict::Unhealthy, _) if count == record.spec.replicas => {
            Some(format!("`{name}` runs but doesn't answer its health check; run `up` to repair it",))
        }
        (_, Phase::Changing | Phase::Deleting) => {
            Some(format!("the last change of `{name}` was cut off; run `up` to finish it"))
        }
        _ => None,
    };
    let outputs = outputs(root, &record, &living, verdict, inputs.clone());
    Ok(Some(Done { id: name.to_owned(), inputs, outputs, problem }))
}

/// The secret variables: the state's, if the processes got those; otherwise from a process itself.
fn secrets(record: &Record, living: &[Started], state: &Properties, key: &[u8; 32]) -> Option<Property> {
    if record.secret_names.is_empty() {
        return None;
    }
    let fits = |secrets: &Secrets| record.spec.revision(secrets, key) == record.revision;
    let known: Secrets = state
        .get("secretEnv")
        .and_then(Property::as_map)
        .map(|map| {
            map.iter().filter_map(|(key, value)| Some((key.clone(), value.as_text()?.to_owned()))).collect()
        })
        .unwrap_or_default();
    let found = if fits(&known) {
        known
    } else {
        living
            .iter()
            .map(|started| {
                let environment: BTreeMap<_, _> = process::environment(started.id.pid);
                environment.into_iter().filter(|(key, _)| record.secret_names.contains(key)).collect()
            })
            .find(fits)
            // Empty differs from whatever is wanted, so the next `up` sets it right.
            .unwrap_or_default()
    };
    Some(Property::Map(found.into_iter().map(|(key, value)| (key, Property::Text(value))).collect()))
}

/// Stops the service and removes its folder; nothing to do is fine. What was created anew meanwhile stays.
pub(crate) fn delete(root: &Root, name: &str, state: &Properties, cancel: &Cancel) -> Result<(), LocalError> {
    let service = root.service_marker(name);
    let folder = Folder::open(&root.service(name), name, cancel)?;
    let record: Option<Record> = match &folder {
        Some(folder) => folder.load()?,
        None => None,
    };
    if record.as_ref().is_some_and(|record| record.generation > generation(state)) {
        return Ok(());
    }
    let mut grace = Duration::from_secs(10);
    let mut leaders: Vec<ProcessId> = Vec::new();
    if let (Some(folder), Some(mut record)) = (&folder, record) {
        grace = record.spec.grace();
        leaders = leaders_of(root, &record);
        record.phase = Phase::Deleting;
        folder.save(&record)?;
    }
    stop(name, &leaders, |mark| mark.service == service, grace)?;
    folder.map_or(Ok(()), Folder::remove)
}

/// The recorded processes that can be told to be this service's own.
fn leaders_of(root: &Root, record: &Record) -> Vec<ProcessId> {
    let living = living(root, record);
    let same_boot = record.boot == process::boot();
    let recorded = record.processes.iter().filter(|_| same_boot).chain(&living);
    recorded.map(|started| started.id).collect()
}
