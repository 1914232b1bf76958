//! The runner's side of a job: claim it, do it as a host would, leave its files. It holds no store, no queue and no
//! receipts; it reaches its own folder alone, and the secrets of one environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use domain::Digest;
use domain::provisioning_run::{Failure, FailureReason};
use ports::runner::{Access, ApplyJob, Job, Phase};
use ports::runner_place::{JobClaim, JobName};
use ports::{Clock, PortError, Put, Receipts, SecretBroker};
use process::Life;

use crate::about::ABOUT;
use crate::checkpoint::Checkpoint;
use crate::job_files::{
    CLAIM, CONFIG, FILES, JobFiles, PLAN, RESULT, Result as Left, SHEET, STATE, STATES, STOP, Sheet, part,
};
use crate::runner::{HostRunner, NotStarted};
use crate::workspace::{self, SHOWN};

/// What a runner needs for one job.
pub struct Work<'a> {
    /// Starts Pulumi here; its data folder is this job's alone.
    pub host: &'a HostRunner,
    /// The jobs' files.
    pub files: &'a dyn Receipts,
    /// Secrets.
    pub secrets: &'a dyn SecretBroker,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Who this is.
    pub worker: String,
    /// When this place has ended it, and the last of its credentials is over.
    pub ends_by: DateTime<Utc>,
    /// When this place or its credentials end: nothing can be left after that.
    pub until: DateTime<Utc>,
    /// Name and SHA-256 of each tool that is here.
    pub tools: BTreeMap<String, String>,
    /// What the job's identity gives it.
    pub access: Access,
    /// The place ends this soon: Pulumi is asked to stop, and what it left is kept.
    pub stopped: &'a AtomicBool,
}

/// Between two looks at a session: at its state, and for a wish to stop.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks between two for a wish to stop.
const STOP_EVERY: u32 = 5;
/// What is left for its end when Pulumi has to stop.
const TO_STOP: TimeDelta = TimeDelta::seconds(45);
/// Between two tries to leave a file.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Does a job. False where somebody else does it, or did.
pub async fn work(work: &Work<'_>, name: &JobName) -> Result<bool, PortError> {
    let files = JobFiles { files: work.files, folder: name.folder() };
    let claim = JobClaim { worker: Some(work.worker.clone()), at: work.clock.now(), ends_by: work.ends_by };
    match files.write(CLAIM, &claim).await? {
        Put::Created | Put::Same => {}
        Put::Different => return Ok(false),
    }
    let left = match job(work, &files, name).await {
        Ok(job) => run(work, &files, name, &job).await?,
        Err(why) => not_started(why, name.phase),
    };
    let left = serde_json::to_vec(&left)
        .map_err(|e| PortError::broken_by("a job's result can't be written", "report this", e))?;
    keep(work, &files, RESULT, &left).await?;
    Ok(true)
}

/// Leaves a file. Nobody else has it: whatever keeps it from being left for a while is waited for.
async fn keep(work: &Work<'_>, files: &JobFiles<'_>, path: &str, bytes: &[u8]) -> Result<(), PortError> {
    loop {
        match files.put(path, bytes).await {
            Err(e) if e.is_temporary() && work.clock.now() < work.until => {
                tracing::warn!(path, error = %e.chain(), "a file can't be left now; it is tried again");
                tokio::time::sleep(TRY_AGAIN).await;
            }
            put => return put.map(drop),
        }
    }
}

/// What a job leaves that was not started. A plan is begun again for what passes; an apply is begun once.
fn not_started(why: NotStarted, phase: Phase) -> Left {
    let nothing = Left { not_started: None, exit: None, died: None, files: BTreeMap::new() };
    match (why, phase) {
        (NotStarted::Later(e), Phase::Plan) => Left { died: Some(e.chain()), ..nothing },
        (NotStarted::Later(e), Phase::Apply) => {
            Left { not_started: Some(failed(phase, e.chain())), ..nothing }
        }
        (NotStarted::Never(failure), _) => Left { not_started: Some(failure), ..nothing },
    }
}

fn failed(phase: Phase, message: String) -> Failure {
    let reason = match phase {
        Phase::Plan => FailureReason::PlanFailed,
        Phase::Apply => FailureReason::ApplyFailed,
    };
    Failure { reason, message }
}

/// Reads the sheet and the secrets that it names.
async fn job(work: &Work<'_>, files: &JobFiles<'_>, name: &JobName) -> Result<ApplyJob, NotStarted> {
    let never = |message: String| NotStarted::Never(failed(name.phase, message));
    let fault = |e: PortError| if e.is_temporary() { NotStarted::Later(e) } else { never(e.chain()) };
    let gone = |what: &str| never(format!("{} has no {what}; plan again", files.folder));
    let sheet: Sheet = files.read(SHEET).await.map_err(fault)?.ok_or_else(|| gone("sheet"))?;
    if sheet.name != *name {
        return Err(never(format!("{} holds another job's sheet; report this", files.folder)));
    }
    if sheet.tools != work.tools {
        return Err(never(
            "its runner has other tools than it was ordered for, as while a stack is deployed; plan again"
                .to_owned(),
        ));
    }
    let mut secrets = BTreeMap::new();
    for wanted in &sheet.secrets {
        let found = work.secrets.resolve(&name.tenant, &wanted.reference).await.map_err(fault)?;
        let found = found.filter(|f| f.version == wanted.version).ok_or_else(|| {
            let message = format!(
                "secret {} ({}) is not at version {} any more; plan again",
                wanted.key, wanted.reference, wanted.version
            );
            never(message)
        })?;
        secrets.insert(wanted.key.clone(), found.value);
    }
    let state = match sheet.has_state {
        true => Some(files.get(STATE).await.map_err(fault)?.ok_or_else(|| gone("state"))?),
        false => None,
    };
    // The controller has made it, or has refused to.
    let passphrase = work.secrets.passphrase(&name.tenant, &name.environment, false).await.map_err(fault)?;
    let (plan_file, stack_config) = match name.phase {
        Phase::Plan => (vec![], vec![]),
        Phase::Apply => (
            files.get(PLAN).await.map_err(fault)?.ok_or_else(|| gone("plan"))?,
            files.get(CONFIG).await.map_err(fault)?.ok_or_else(|| gone("stack configuration"))?,
        ),
    };
    Ok(ApplyJob {
        job: Job {
            run: name.run,
            attempt: name.start,
            tenant: name.tenant.clone(),
            environment: name.environment.clone(),
            program: sheet.program,
            config: sheet.config,
            secrets,
            secret_versions: sheet.secrets,
            inputs: sheet.inputs,
            identity: sheet.identity,
            access: work.access.clone(),
            passphrase,
            state,
            deadline: sheet.deadline.min(work.until - TO_STOP),
        },
        plan_file,
        stack_config,
        changing: vec![],
        since: work.clock.now(),
        lost_secrets: vec![],
        may_start: true,
    })
}

/// Starts Pulumi, waits for its end, and leaves its files.
async fn run(
    work: &Work<'_>,
    files: &JobFiles<'_>,
    name: &JobName,
    job: &ApplyJob,
) -> Result<Left, PortError> {
    let applied = (name.phase == Phase::Apply).then_some(job);
    // Before the start: from there on nothing may end this early, or a running apply would be left alone.
    let redactor = match work.host.access_redactor(&job.job).await {
        Ok(redactor) => redactor,
        Err(e) => return Ok(not_started(NotStarted::Later(e), name.phase)),
    };
    if let Err(why) = work.host.start(&job.job, name.phase, name.start, applied).await {
        return Ok(not_started(why, name.phase));
    }
    let session = work.host.session(name.run, name.phase, name.start);
    let (workspace, about) = work.host.about(name.run, name.phase, name.start).await?;
    let checkpoint = workspace.checkpoint(&about.project, &about.stack);
    let mut states = States { written: Digest::of(&job.job.state.clone().unwrap_or_default()), number: 0 };
    let mut looks = 0;
    let life = loop {
        let waited = session.clone();
        let life = tokio::task::spawn_blocking(move || process::wait(&waited, LOOK))
            .await
            .map_err(|e| PortError::unavailable("this runner", e))?;
        if name.phase == Phase::Apply {
            states.keep(files, &checkpoint).await;
        }
        if !matches!(life, Life::Running { .. }) {
            break life;
        }
        if work.stopped.load(Ordering::Relaxed) {
            drop(process::stop(&session));
        }
        looks += 1;
        if looks % STOP_EVERY == 0 && matches!(files.get(STOP).await, Ok(Some(_))) {
            drop(process::stop(&session));
        }
    };
    let (exit, died) = match life {
        Life::Finished { exit, .. } => (Some(exit), None),
        Life::Dead(proof) => (None, Some(format!("{:?}", proof.evidence))),
        Life::NeverStarted | Life::Running { .. } => (None, Some("its session vanished".to_owned())),
        Life::Unknown { why, .. } => (None, Some(why)),
    };
    let mut kept = BTreeMap::new();
    let wanted = [
        (format!("work/{ABOUT}"), workspace.root.join(ABOUT)),
        ("work/plan.json".to_owned(), workspace.plan()),
        ("work/stack.yaml".to_owned(), workspace.config()),
    ];
    let state = checkpoint.strip_prefix(&workspace.root).unwrap_or(&checkpoint);
    let state = (format!("work/{}", state.display()), checkpoint.clone());
    // The controller masks what it knows, in what it has decoded; what this run's identity was given, nobody else knows.
    // The state is kept as Pulumi wrote it, and beside it what may be shown of it.
    let read = |(path, file): (String, PathBuf)| Some((path, workspace::read(work.host.data(), &file)?));
    let printed = outputs(&session).into_iter().filter_map(read);
    let printed =
        printed.map(|(path, text)| (path, redactor.text(&String::from_utf8_lossy(&text)).into_bytes()));
    let state = read(state);
    let parsed = state.as_ref().and_then(|(_, bytes)| Checkpoint::parse(bytes).ok());
    let shown = parsed.and_then(|state| state.without(&redactor)).map(|s| (format!("work/{SHOWN}"), s));
    // The state first: it is what can't be made again.
    let wanted = wanted.into_iter().filter_map(read);
    for (path, bytes) in state.into_iter().chain(wanted).chain(printed).chain(shown) {
        kept.insert(path.clone(), Digest::of(&bytes));
        keep(work, files, &format!("{FILES}/{}", part(&path)), &bytes).await?;
    }
    Ok(Left { not_started: None, exit, died, files: kept })
}

/// What the steps of a session printed.
fn outputs(session: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(session) else { return vec![] };
    let printed = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let printed = name.ends_with(".stdout") || name.ends_with(".stderr");
        printed.then(|| (format!("session/{name}"), entry.path()))
    });
    printed.collect()
}

/// The states that an apply went through: should its place vanish, the newest tells what was done.
struct States {
    written: Digest,
    number: u32,
}

impl States {
    async fn keep(&mut self, files: &JobFiles<'_>, checkpoint: &Path) {
        let Ok(state) = std::fs::read(checkpoint) else { return };
        let digest = Digest::of(&state);
        // Half a state is none: the next look sees all of it.
        if digest == self.written || serde_json::from_slice::<serde::de::IgnoredAny>(&state).is_err() {
            return;
        }
        let path = format!("{STATES}/{:06}.json", self.number);
        match files.put(&path, &state).await {
            Ok(_) => {
                self.written = digest;
                self.number += 1;
            }
            Err(e) => tracing::warn!(error = %e.chain(), "a state could not be kept; the next one is"),
        }
    }
}
