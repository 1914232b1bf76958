//! The controller's side of runs that happen elsewhere: it orders a job, and later believes the files that came of it,
//! not a report. It computes every digest itself (Rule 23).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use domain::ProvisioningRun;
use domain::identity::Identity;
use domain::provisioning_run::{Failure, FailureReason};
use events::ProvisioningRunId;
use ports::runner::{ApplyJob, ApplyOutcome, Job, Phase, PlanOutcome, Progress, Zombie};
use ports::runner_place::{JobClaim, JobName, Order};
use ports::{Clock, PortError, Put, Receipts, RunStopper, Runner, SecretBroker};

use crate::about::{About, MOVED};
use crate::collect;
use crate::fetched::{self, Fetched, disk};
use crate::job_files::{
    CLAIM, CONFIG, JobFiles, ORDERED, Ordered, PLAN, Result as Left, SHEET, STATE, STATES, Sheet,
};
use crate::places::{Place, Places};
use crate::redact::Redactor;
use crate::remote_stopper::{RemoteStopper, half, starts};
use crate::runner::PLAN_STARTS;
use crate::workspace::Workspace;

/// The runner.
pub struct RemoteRunner {
    /// The jobs' files.
    pub files: Arc<dyn Receipts>,
    /// Where jobs run.
    pub places: Places,
    /// Kubeconfigs, to be masked in what comes of a job.
    pub secrets: Arc<dyn SecretBroker>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Name and SHA-256 of each tool that runners have.
    pub tools: BTreeMap<String, String>,
    /// A folder for the files of a job that is looked at.
    pub scratch: PathBuf,
    /// For receipts.
    pub version: String,
}

/// How long somebody who was asked to work on a job may take to claim it. Later nobody does.
const UNCLAIMED: TimeDelta = TimeDelta::minutes(10);
/// After that somebody is asked again: whoever asked may have died before, or may not have been heard.
const ASK_AGAIN: TimeDelta = TimeDelta::minutes(2);

/// The bucket keeps a job's files for at least so long.
const FILES_STAY: TimeDelta = TimeDelta::days(1);

/// What is known of a start.
enum Found {
    /// Nobody has ordered it.
    Nothing,
    /// It was made sure that nobody ever does.
    Never,
    /// It goes on.
    Running,
    /// Somebody was to be asked long ago, so often, and nobody has claimed it.
    Unclaimed(Place, u32),
    /// It left its result.
    Left(Left),
    /// It is proven that nothing more comes of it. `claimed`: somebody had begun.
    Dead { proof: String, claimed: bool },
}

/// What came of beginning a job.
enum Begun {
    /// Somebody was asked.
    Asked,
    /// It was made sure before that nobody ever does it.
    Never,
    /// Nobody can be asked, and nobody comes.
    Refused(String),
}

impl RemoteRunner {
    fn files<'a>(&'a self, name: &JobName) -> JobFiles<'a> {
        JobFiles { files: &*self.files, folder: name.folder() }
    }

    fn name(job: &Job, phase: Phase, start: u32) -> JobName {
        let (tenant, environment) = (job.tenant.clone(), job.environment.clone());
        JobName { tenant, environment, run: job.run, phase, start }
    }

    fn order(job: &Job, name: JobName, asked: u32) -> Order {
        let secrets = job.secret_versions.iter().map(|r| r.reference.clone());
        Order {
            name,
            secrets: secrets.chain(credential(job)).chain(kubeconfig(job)).collect(),
            identity: job.identity.clone(),
            deadline: job.deadline,
            asked,
        }
    }

    /// Masks the secrets of a job, its identity's kubeconfig too. A role's keys are over before anybody reads what they
    /// left.
    async fn redactor(&self, job: &Job) -> Result<Redactor, PortError> {
        let mut job = job.clone();
        if let Some(secret) = kubeconfig(&job)
            && let Some(found) = self.secrets.resolve(&job.tenant, &secret).await?
        {
            job.access.files.insert("KUBECONFIG".to_owned(), found.value);
        }
        Ok(collect::redactor(&job))
    }

    async fn look_at(&self, name: &JobName) -> Result<Found, PortError> {
        match self.files(name).result().await? {
            Some(Ok(left)) => Ok(Found::Left(left)),
            Some(Err(unusable)) => self.look_past(name, Some(unusable)).await,
            None => self.look_past(name, None).await,
        }
    }

    /// What is known of a start without its result. One that is there and can't be used proves no end: what the place
    /// says does.
    async fn look_past(&self, name: &JobName, unusable: Option<String>) -> Result<Found, PortError> {
        let files = self.files(name);
        let Some(ordered) = files.read::<Ordered>(ORDERED).await? else { return Ok(Found::Nothing) };
        if ordered.never {
            return Ok(Found::Never);
        }
        let now = self.clock.now();
        let claim = match files.read::<JobClaim>(CLAIM).await? {
            Some(claim) => claim,
            None if now < ordered.at + ASK_AGAIN => return Ok(Found::Running),
            None if now < ordered.at + UNCLAIMED => {
                let windows = (now - ordered.at).num_seconds() / ASK_AGAIN.num_seconds();
                return Ok(Found::Unclaimed(ordered.place, u32::try_from(windows).unwrap_or_default()));
            }
            None => {
                let Some(nobody) = self.claim_for_nobody(&files).await? else { return Ok(Found::Running) };
                nobody
            }
        };
        if claim.worker.is_none() {
            let proof = "nobody came to work on it, and nobody can any more".to_owned();
            return Ok(Found::Dead { proof, claimed: false });
        }
        let Some(mut proof) = self.places.get(ordered.place)?.gone(&claim, now).await? else {
            return Ok(Found::Running);
        };
        // It may have left its result just before.
        let result = match unusable {
            Some(why) => Some(Err(why)),
            None => files.result().await?,
        };
        match result {
            Some(Ok(left)) => return Ok(Found::Left(left)),
            Some(Err(why)) => proof = format!("{proof}; {why}"),
            None => {}
        }
        Ok(Found::Dead { proof, claimed: true })
    }

    /// Whoever might still come finds it taken: so nobody has begun, and nobody will. None: somebody was faster.
    async fn claim_for_nobody(&self, files: &JobFiles<'_>) -> Result<Option<JobClaim>, PortError> {
        let now = self.clock.now();
        let nobody = JobClaim { worker: None, at: now, ends_by: now };
        Ok(match files.write(CLAIM, &nobody).await? {
            Put::Created | Put::Same => Some(nobody),
            Put::Different => None,
        })
    }

    /// Asks somebody to work on a job. What can't be asked for at all is refused: its message, once it is sure that
    /// nobody comes all the same.
    async fn ask(&self, order: &Order, place: Place) -> Result<Option<String>, PortError> {
        match self.places.get(place)?.start(order).await {
            Ok(()) => Ok(None),
            Err(e) if e.is_temporary() => Err(e),
            Err(e) => {
                let nobody = self.claim_for_nobody(&self.files(&order.name)).await?;
                Ok(nobody.map(|_| e.chain()))
            }
        }
    }

    /// Puts a job's files, then the order; then somebody is asked.
    async fn begin(&self, job: &Job, name: JobName, applied: Option<&ApplyJob>) -> Result<Begun, PortError> {
        let files = self.files(&name);
        let sheet = Sheet {
            name: name.clone(),
            program: job.program.clone(),
            config: job.config.clone(),
            identity: job.identity.clone(),
            secrets: job.secret_versions.clone(),
            inputs: job.inputs.clone(),
            tools: self.tools.clone(),
            has_state: job.state.is_some(),
            deadline: job.deadline,
        };
        files.write(SHEET, &sheet).await?;
        if let Some(state) = &job.state {
            files.put(STATE, state).await?;
        }
        if let Some(applied) = applied {
            files.put(PLAN, &applied.plan_file).await?;
            files.put(CONFIG, &applied.stack_config).await?;
        }
        let mut place = self.places.choose(name.phase, applied.map_or(&[], |a| &a.changing));
        let ordered = Ordered { never: false, at: self.clock.now(), place };
        if files.write(ORDERED, &ordered).await? == Put::Different {
            // Whoever was faster has chosen.
            match files.read::<Ordered>(ORDERED).await? {
                Some(there) if there.never => return Ok(Begun::Never),
                Some(there) => place = there.place,
                None => {}
            }
        }
        let refused = self.ask(&Self::order(job, name, 0), place).await?;
        Ok(refused.map_or(Begun::Asked, Begun::Refused))
    }

    async fn fetch(&self, name: &JobName, left: &Left) -> Result<Result<Fetched, String>, PortError> {
        let root = self.scratch.join(format!("{}-{}-{}", name.run, name.phase.as_str(), name.start));
        fetched::fetch(&self.files(name), &root, left).await
    }

    fn forget(&self, workspace: &Workspace) {
        if let Some(root) = workspace.root.parent() {
            drop(std::fs::remove_dir_all(root));
        }
    }

    /// The newest state that an apply left before it died: the end of the list.
    async fn last_state(&self, name: &JobName) -> Result<Option<Vec<u8>>, PortError> {
        let files = self.files(name);
        match files.below(STATES).await?.last() {
            Some(path) => files.get(path).await,
            None => Ok(None),
        }
    }

    /// An apply of which nothing more comes. Where somebody had begun, what it did is what the newest of its states says.
    async fn dead(
        &self,
        job: &ApplyJob,
        name: &JobName,
        proof: String,
        claimed: bool,
    ) -> Result<Progress<ApplyOutcome>, PortError> {
        if !claimed {
            return Ok(Progress::Dead { proof });
        }
        let state = self.last_state(name).await?;
        let (project, stack) = ("remote".to_owned(), "remote".to_owned());
        let root = self.scratch.join(format!("{}-dead", name.run));
        let workspace = Workspace::create(root.join("work")).map_err(disk)?;
        let state = state.or_else(|| job.job.state.clone());
        if let Some(state) = &state {
            workspace.put_state(&project, &stack, state).map_err(disk)?;
        }
        let about = About {
            run: name.run,
            tenant: name.tenant.clone(),
            environment: name.environment.clone(),
            project,
            stack,
            inputs: None,
            ended: None,
        };
        let redactor = self.redactor(&job.job).await?;
        let before = job.job.state.as_deref();
        let session = root.join("session");
        let end = collect::End::Died(proof);
        let outcome = collect::apply(&session, &workspace, &about, &end, before, &redactor);
        self.forget(&workspace);
        Ok(Progress::Finished(collect::withheld(outcome, &job.lost_secrets)))
    }
}

/// The secret by which a program's repository is read, if it has one.
fn credential(job: &Job) -> Option<String> {
    let host = job.program.repository.strip_prefix("https://")?.split('/').next()?;
    Some(format!("git:{host}"))
}

/// The secret that holds the kubeconfig of a job's identity, if it has one.
fn kubeconfig(job: &Job) -> Option<String> {
    match Identity::parse(job.identity.as_deref()?) {
        Ok(Identity::Kubeconfig(secret)) => Some(secret.to_owned()),
        Ok(Identity::Role(_) | Identity::OwnRole(_)) | Err(_) => None,
    }
}

#[async_trait]
impl RunStopper for RemoteRunner {
    async fn stop(&self, run: &ProvisioningRun, phase: Phase) -> Result<(), PortError> {
        RemoteStopper { files: Arc::clone(&self.files) }.stop(run, phase).await
    }

    async fn zombies(&self) -> Result<Vec<Zombie>, PortError> {
        RemoteStopper { files: Arc::clone(&self.files) }.zombies().await
    }
}

#[async_trait]
impl Runner for RemoteRunner {
    async fn plan(&self, job: &Job) -> Result<Progress<PlanOutcome>, PortError> {
        let mut died = String::new();
        for start in 1..=PLAN_STARTS {
            let name = Self::name(job, Phase::Plan, start);
            let left = match self.look_at(&name).await? {
                Found::Nothing => {
                    return Ok(match self.begin(job, name, None).await? {
                        Begun::Asked | Begun::Never => Progress::Running,
                        Begun::Refused(why) => {
                            Progress::Finished(collect::no_plan(FailureReason::PlanFailed, why))
                        }
                    });
                }
                Found::Unclaimed(place, asked) => {
                    self.ask(&Self::order(job, name, asked), place).await?;
                    return Ok(Progress::Running);
                }
                Found::Running => return Ok(Progress::Running),
                Found::Never => continue,
                Found::Dead { proof, .. } => {
                    died = proof;
                    continue;
                }
                Found::Left(left) => left,
            };
            let sheet = self.files(&name).read::<Sheet>(SHEET).await?;
            if sheet.is_none_or(|sheet| sheet.inputs != job.inputs) {
                MOVED.clone_into(&mut died);
                continue;
            }
            if let Some(Failure { reason, message }) = left.not_started {
                return Ok(Progress::Finished(collect::no_plan(reason, message)));
            }
            let Some(exit) = &left.exit else {
                died = left.died.unwrap_or_else(|| "it left no end".to_owned());
                continue;
            };
            if collect::was_killed(exit, "preview") {
                "it was killed".clone_into(&mut died);
                continue;
            }
            let fetched = match self.fetch(&name, &left).await? {
                Ok(fetched) => fetched,
                Err(unusable) => {
                    died = unusable;
                    continue;
                }
            };
            let Fetched { workspace, session, about } = &fetched;
            let outcome = collect::plan(session, workspace, about, exit, &self.redactor(job).await?);
            self.forget(workspace);
            return Ok(Progress::Finished(outcome));
        }
        let message = format!("it was begun {PLAN_STARTS} times, last: {died}; plan again");
        Ok(Progress::Finished(collect::no_plan(FailureReason::Interrupted, message)))
    }

    async fn apply(&self, job: &ApplyJob) -> Result<Progress<ApplyOutcome>, PortError> {
        let name = Self::name(&job.job, Phase::Apply, 1);
        let mut found = self.look_at(&name).await?;
        if matches!(found, Found::Nothing) {
            // Files go by the bucket's own rule after some days: then their absence proves nothing.
            if !job.may_start && self.clock.now() > job.since + FILES_STAY {
                let why = "nothing is left of its files, so nobody can tell what it did: look at its resources, then \
                           `runtime-cloud recover break`";
                return Ok(Progress::Unknown { why: why.to_owned() });
            }
            if job.may_start {
                match self.begin(&job.job, name.clone(), Some(job)).await? {
                    Begun::Asked => return Ok(Progress::Running),
                    Begun::Refused(why) => return Ok(Progress::Finished(collect::not_started(&why))),
                    Begun::Never => found = Found::Never,
                }
            } else {
                // Whoever may start it could still be on its way: take its place first.
                let never = Ordered { never: true, at: self.clock.now(), place: Place::default() };
                found = match self.files(&name).write(ORDERED, &never).await? {
                    Put::Created | Put::Same => Found::Never,
                    Put::Different => Found::Running,
                };
            }
        }
        let left = match found {
            Found::Unclaimed(place, asked) => {
                self.ask(&Self::order(&job.job, name, asked), place).await?;
                return Ok(Progress::Running);
            }
            Found::Nothing | Found::Running => return Ok(Progress::Running),
            Found::Never => return Ok(Progress::Dead { proof: "Pulumi was never started".to_owned() }),
            Found::Dead { proof, claimed } => return self.dead(job, &name, proof, claimed).await,
            Found::Left(left) => left,
        };
        if let Some(failure) = left.not_started {
            return Ok(Progress::Finished(collect::not_started(&failure.message)));
        }
        let Fetched { workspace, session, about } = match self.fetch(&name, &left).await? {
            Ok(fetched) => fetched,
            Err(unusable) => {
                return match self.look_past(&name, Some(unusable)).await? {
                    Found::Dead { proof, claimed } => self.dead(job, &name, proof, claimed).await,
                    _ => Ok(Progress::Running),
                };
            }
        };
        let end = match (left.exit.clone(), &left.died) {
            (Some(exit), _) => collect::End::Exited(exit),
            (None, why) => collect::End::Died(why.clone().unwrap_or_else(|| "it left no end".to_owned())),
        };
        let redactor = self.redactor(&job.job).await?;
        let before = job.job.state.as_deref();
        let outcome = collect::apply(&session, &workspace, &about, &end, before, &redactor);
        self.forget(&workspace);
        Ok(Progress::Finished(collect::withheld(outcome, &job.lost_secrets)))
    }

    fn longest_apply(&self, changing: &[String]) -> Option<TimeDelta> {
        self.places.longest(self.places.choose(Phase::Apply, changing))
    }

    async fn look(&self, run: &ProvisioningRun, phase: Phase) -> Result<Progress<()>, PortError> {
        for start in (1..=starts(phase)).rev() {
            let name = half(run, phase, start);
            return Ok(match self.look_at(&name).await? {
                Found::Nothing => continue,
                Found::Running | Found::Unclaimed(..) => Progress::Running,
                Found::Left(_) => Progress::Finished(()),
                Found::Never => Progress::Dead { proof: "it was never started".to_owned() },
                Found::Dead { proof, .. } => Progress::Dead { proof },
            });
        }
        Ok(Progress::Dead { proof: "it was never started".to_owned() })
    }

    /// Its files go by the bucket's own rule, after some days.
    async fn clean(&self, _: ProvisioningRunId, _: Phase) -> Result<(), PortError> {
        Ok(())
    }

    async fn tools(&self) -> Result<BTreeMap<String, String>, PortError> {
        Ok(self.tools.clone())
    }

    fn version(&self) -> String {
        self.version.clone()
    }
}
