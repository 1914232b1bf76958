//! The runner of a host: each half of a run is a supervised session that outlives this process and is adopted by
//! the next one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use domain::ProvisioningRun;
use domain::aggregate::{encode, file_name};
use domain::provisioning_run::{Failure, FailureReason};
use events::ProvisioningRunId;
use ports::runner::{ApplyJob, ApplyOutcome, Job, Phase, PlanOutcome, Progress, Zombie};
use ports::{PortError, ProgramSource, RunStopper, Runner, SecretBroker};
use process::{Life, Step};

use crate::about::{ABOUT, About, MOVED};
use crate::checkpoint::Checkpoint;
use crate::collect;
use crate::program_check::{ProgramRefusal, check_program};
use crate::remains;
use crate::stack::{config_file, stack_name};
use crate::steps::Steps;
use crate::toolbox::ToolBox;
use crate::tools::{self, Tools};
use crate::workspace::{self, Workspace};

/// Where a host's runs work, and their limits.
#[derive(Debug, Clone)]
pub struct HostRunnerSettings {
    /// The data folder.
    pub data: PathBuf,
    /// This program: started again as supervisor.
    pub program: PathBuf,
    /// This program under the name of the local provider; None where programs may not touch this machine.
    pub local_provider: Option<PathBuf>,
    /// The local provider's version.
    pub local_version: String,
    /// `PATH` of the runs, behind Pulumi's own folders.
    pub path: String,
    /// Further variables that the runs see: cloud identities by name, never secrets.
    pub environment: BTreeMap<String, String>,
    /// How long an operation in flight may take to end after a stop.
    pub grace: Duration,
    /// Bytes that a plan or an apply may print.
    pub output_limit: u64,
}

/// The runner.
pub struct HostRunner {
    /// Settings.
    pub settings: HostRunnerSettings,
    /// Pulumi.
    pub tools: Arc<ToolBox>,
    /// Programs.
    pub programs: Arc<dyn ProgramSource>,
    /// Kubeconfigs.
    pub secrets: Arc<dyn SecretBroker>,
}

/// How often a plan whose process died is started again: it changes nothing.
pub(crate) const PLAN_STARTS: u32 = 3;
/// How long one wait blocks a thread.
const WAIT: Duration = Duration::from_secs(1);
/// In a session's place: it was never started, and now can't be.
const NEVER: &str = "never-started";

/// Why a session wasn't started.
pub(crate) enum NotStarted {
    /// It may work later.
    Later(PortError),
    /// It won't: the plan or the apply fails with this.
    Never(Failure),
}

impl HostRunner {
    /// Where everything of its runs is.
    pub(crate) fn data(&self) -> &Path {
        &self.settings.data
    }

    pub(crate) fn session(&self, run: ProvisioningRunId, phase: Phase, start: u32) -> PathBuf {
        self.settings.data.join("sessions").join(format!("{run}-{}-{start}", phase.as_str()))
    }

    pub(crate) fn workspace(&self, run: ProvisioningRunId, phase: Phase, start: u32) -> PathBuf {
        self.settings.data.join("work").join(format!("{run}-{}-{start}", phase.as_str()))
    }

    /// The newest start of a half of a run; 0 where there is none.
    fn newest(&self, run: ProvisioningRunId, phase: Phase) -> u32 {
        (1..=PLAN_STARTS).rev().find(|n| self.session(run, phase, *n).exists()).unwrap_or_default()
    }

    /// Waits for the end of a session.
    async fn wait(&self, session: &Path) -> Result<Life, PortError> {
        loop {
            let session = session.to_owned();
            let life = blocking(move || Ok(process::wait(&session, WAIT))).await?;
            if !matches!(life, Life::Running { .. }) {
                return Ok(life);
            }
        }
    }

    /// Checks the program out, prepares its folder and starts it.
    pub(crate) async fn start(
        &self,
        job: &Job,
        phase: Phase,
        start: u32,
        applied: Option<&ApplyJob>,
    ) -> Result<(), NotStarted> {
        let failed = |reason: FailureReason, message: String| NotStarted::Never(Failure { reason, message });
        let reason = if applied.is_some() { FailureReason::ApplyFailed } else { FailureReason::PlanFailed };
        let job = &self.with_access(job).await?;
        let tools = self.tools.get().await.map_err(later)?;
        let root = self.workspace(job.run, phase, start);
        let workspace = blocking(move || Workspace::create(root)).await.map_err(later)?;
        let checkout =
            self.programs.checkout(&job.tenant, &job.program, &workspace.worktree(), job.deadline).await;
        let checkout = match checkout {
            Ok(checkout) => checkout,
            Err(e) if e.is_temporary() && applied.is_none() => return Err(later(e)),
            Err(e) => return Err(failed(reason, e.chain())),
        };
        let refused = |e: ProgramRefusal| {
            let (path, commit) = (&job.program.path, job.program.commit.short());
            failed(reason, format!("program {path:?} at commit {commit}: {}", ports::error::chain(&e)))
        };
        let project = check_program(&checkout.program).map_err(refused)?;
        let stack = stack_name(&job.tenant, &job.environment);
        let about = About {
            run: job.run,
            tenant: job.tenant.clone(),
            environment: job.environment.clone(),
            project: project.name.clone(),
            stack: stack.clone(),
            inputs: Some(job.inputs.clone()),
            ended: None,
        };
        let state = match &job.state {
            Some(state) => state.clone(),
            None => Checkpoint::empty(&project.name, &stack),
        };
        let salt = Checkpoint::parse(&state).map_err(|e| failed(reason, e))?.salt().map(str::to_owned);
        let config = match applied {
            Some(applied) => applied.stack_config.clone(),
            None => config_file(&project, &job.config, salt.as_deref())
                .map_err(|e| failed(reason, e.to_string()))?,
        };
        let local_root = self
            .settings
            .data
            .join("local")
            .join(file_name(&encode(job.tenant.as_str())))
            .join(file_name(&encode(job.environment.as_str())));
        let step = Steps { workspace: &workspace, program: &checkout.program, stack: &stack };
        let env = self.environment(&workspace, &tools, &local_root);
        let (steps, secrets) = match applied {
            Some(_) => step.apply(&tools, job),
            None => step.plan(&tools, job, &project, salt.is_none()),
        };
        let steps = steps.into_iter().map(|s| Step { env: env.clone(), ..s }).collect();
        let session = process::Job {
            marker: marker(job.run, phase, start),
            steps,
            deadline_unix_ms: job.deadline.timestamp_millis().unsigned_abs(),
            grace_ms: u64::try_from(self.settings.grace.as_millis()).unwrap_or(u64::MAX),
            output_limit: self.settings.output_limit,
            own_cgroup: true,
        };
        let plan_file = applied.map(|a| a.plan_file.clone());
        let settings = self.settings.clone();
        let dir = self.session(job.run, phase, start);
        let started = blocking(move || {
            std::fs::create_dir_all(&local_root)?;
            std::fs::create_dir_all(settings.data.join("sessions"))?;
            workspace::write(&workspace.root.join(ABOUT), &serde_json::to_vec(&about)?)?;
            workspace.put_state(&about.project, &about.stack, &state)?;
            workspace.link_plugins(
                settings.local_provider.as_deref(),
                &settings.local_version,
                Some(&settings.data.join("plugins")),
            )?;
            workspace::write(&workspace.config(), &config)?;
            if let Some(plan_file) = plan_file {
                workspace::write(&workspace.plan(), &plan_file)?;
            }
            Ok(process::start(&settings.program, &dir, &session, &secrets))
        });
        match started.await.map_err(later)? {
            // Whoever was faster started it: go on with theirs.
            Ok(_) | Err(process::StartError::AlreadyThere { .. }) => Ok(()),
            Err(e) => Err(failed(reason, format!("it could not be started: {}", ports::error::chain(&e)))),
        }
    }

    /// The complete environment of a run: nothing is inherited.
    fn environment(
        &self,
        workspace: &Workspace,
        tools: &Tools,
        local_root: &Path,
    ) -> BTreeMap<String, String> {
        let text = |p: &Path| p.to_string_lossy().into_owned();
        let mut path: Vec<String> = tools.path_dirs.iter().map(|p| text(p)).collect();
        path.push(self.settings.path.clone());
        let mut env = self.settings.environment.clone();
        for (name, value) in [
            ("PATH", path.join(":")),
            ("HOME", text(&workspace.home())),
            ("TMPDIR", text(&workspace.tmp())),
            ("LANG", "C.UTF-8".to_owned()),
            ("PULUMI_HOME", text(&workspace.home())),
            ("PULUMI_BACKEND_URL", format!("file://{}", text(&workspace.backend()))),
            ("PULUMI_SKIP_UPDATE_CHECK", "true".to_owned()),
            ("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true".to_owned()),
            ("PULUMI_SELF_MANAGED_STATE_NO_LEGACY_WARNING", "true".to_owned()),
            ("RUNTIME_CLOUD_LOCAL_ROOT", text(local_root)),
        ] {
            env.insert(name.to_owned(), value);
        }
        env
    }

    /// Whether a place was taken instead of a session, and no supervisor that had lost its own left a record in it.
    async fn is_grave(&self, session: &Path) -> Result<bool, PortError> {
        let session = session.to_owned();
        blocking(move || {
            let taken = session.join(NEVER).exists();
            Ok(taken && !matches!(process::look(&session), Life::Finished { .. }))
        })
        .await
    }

    /// An apply without its session's folder. It was never started only if nothing else says that it was: no process
    /// carries its mark, and no work folder was prepared for it (Rule 20).
    async fn without_session(&self, job: &ApplyJob) -> Result<Progress<ApplyOutcome>, PortError> {
        let run = job.job.run;
        let (session, marker) = (self.session(run, Phase::Apply, 1), marker(run, Phase::Apply, 1));
        let dir = session.clone();
        let living = blocking(move || Ok(process::left_behind(&dir, &marker))).await?;
        if !living.is_empty() {
            return Ok(Progress::Unknown { why: session_is_gone(living.len()) });
        }
        // It is written before a session is started, so without it none was.
        if !self.workspace(run, Phase::Apply, 1).join(ABOUT).exists() {
            return Ok(never_started());
        }
        let died = "no process of it is left, and its session's folder is not there".to_owned();
        self.collect(job, session, collect::End::Died(died)).await
    }

    /// What an apply that has ended left.
    async fn collect(
        &self,
        job: &ApplyJob,
        session: PathBuf,
        end: collect::End,
    ) -> Result<Progress<ApplyOutcome>, PortError> {
        let (workspace, about) = self.about(job.job.run, Phase::Apply, 1).await?;
        let redactor = collect::redactor(&self.known_access(&job.job).await?);
        let before = job.job.state.clone();
        let lost = job.lost_secrets.clone();
        let outcome = blocking(move || {
            let outcome = collect::apply(&session, &workspace, &about, &end, before.as_deref(), &redactor);
            Ok(collect::withheld(outcome, &lost))
        });
        Ok(Progress::Finished(outcome.await?))
    }

    /// What one start of a run works in, and what that says of itself.
    pub(crate) async fn about(
        &self,
        run: ProvisioningRunId,
        phase: Phase,
        start: u32,
    ) -> Result<(Workspace, About), PortError> {
        let workspace = Workspace { root: self.workspace(run, phase, start) };
        let file = workspace.root.join(ABOUT);
        let about = blocking(move || {
            let bytes = std::fs::read(file)?;
            serde_json::from_slice(&bytes).map_err(std::io::Error::other)
        });
        Ok((workspace, about.await?))
    }
}

/// What every process of a session carries in its environment.
fn marker(run: ProvisioningRunId, phase: Phase, start: u32) -> String {
    format!("{run}.{}.{start}", phase.as_str())
}

fn never_started<T>() -> Progress<T> {
    Progress::Dead { proof: "Pulumi was never started".to_owned() }
}

fn session_is_gone(living: usize) -> String {
    format!("its session's folder is gone, but {living} of its processes live")
}

pub(crate) fn later(error: PortError) -> NotStarted {
    if error.is_temporary() {
        return NotStarted::Later(error);
    }
    let message = error.chain();
    NotStarted::Never(Failure { reason: FailureReason::PlanFailed, message })
}

#[async_trait]
impl RunStopper for HostRunner {
    async fn stop(&self, run: &ProvisioningRun, phase: Phase) -> Result<(), PortError> {
        let run = run.id;
        let newest = self.newest(run, phase);
        if newest == 0 {
            return Ok(());
        }
        let session = self.session(run, phase, newest);
        blocking(move || process::stop(&session).map_err(std::io::Error::other)).await
    }

    async fn zombies(&self) -> Result<Vec<Zombie>, PortError> {
        let folder = self.settings.data.join("work");
        blocking(move || remains::zombies(&folder)).await
    }
}

#[async_trait]
impl Runner for HostRunner {
    async fn plan(&self, job: &Job) -> Result<Progress<PlanOutcome>, PortError> {
        loop {
            let newest = self.newest(job.run, Phase::Plan);
            let mut start = newest;
            if newest > 0 {
                let session = self.session(job.run, Phase::Plan, newest);
                let died = match self.wait(&session).await? {
                    Life::Unknown { why, .. } => return Ok(Progress::Unknown { why }),
                    Life::Finished { exit, .. } if collect::was_killed(&exit, "preview") => {
                        "it was killed".to_owned()
                    }
                    Life::Finished { exit, .. } => {
                        let (workspace, about) = self.about(job.run, Phase::Plan, newest).await?;
                        if about.inputs.as_ref() == Some(&job.inputs) {
                            let redactor = collect::redactor(&self.known_access(job).await?);
                            let outcome = blocking(move || {
                                Ok(collect::plan(&session, &workspace, &about, &exit, &redactor))
                            });
                            return Ok(Progress::Finished(outcome.await?));
                        }
                        MOVED.to_owned()
                    }
                    Life::Dead(proof) => format!("{:?}", proof.evidence),
                    Life::NeverStarted | Life::Running { .. } => "it vanished".to_owned(),
                };
                if newest >= PLAN_STARTS {
                    let message = format!("it was begun {PLAN_STARTS} times, last: {died}; plan again");
                    return Ok(Progress::Finished(collect::no_plan(FailureReason::Interrupted, message)));
                }
                start = newest;
            }
            match self.start(job, Phase::Plan, start + 1, None).await {
                Ok(()) => {}
                Err(NotStarted::Later(e)) => return Err(e),
                Err(NotStarted::Never(failure)) => {
                    return Ok(Progress::Finished(collect::no_plan(failure.reason, failure.message)));
                }
            }
        }
    }

    async fn apply(&self, job: &ApplyJob) -> Result<Progress<ApplyOutcome>, PortError> {
        let run = job.job.run;
        let session = self.session(run, Phase::Apply, 1);
        if job.may_start && !session.exists() {
            match self.start(&job.job, Phase::Apply, 1, Some(job)).await {
                Ok(()) => {}
                Err(NotStarted::Later(e)) => {
                    return Ok(Progress::Finished(collect::not_started(&e.chain())));
                }
                Err(NotStarted::Never(failure)) => {
                    return Ok(Progress::Finished(collect::not_started(&failure.message)));
                }
            }
        }
        if !job.may_start && !session.exists() {
            // Whoever may start it could still be on its way: take its place first, then look at what is there.
            let (grave, parent) = (session.clone(), self.settings.data.join("sessions"));
            blocking(move || {
                std::fs::create_dir_all(parent)?;
                match std::fs::create_dir(&grave) {
                    Ok(()) => std::fs::write(grave.join(NEVER), b""),
                    Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
                    Err(e) => Err(e),
                }
            })
            .await?;
        }
        if self.is_grave(&session).await? {
            return self.without_session(job).await;
        }
        let end = match self.wait(&session).await? {
            Life::Finished { exit, survivors } if survivors.is_empty() => collect::End::Exited(exit),
            Life::Finished { survivors, .. } => {
                let why =
                    format!("its supervisor has ended, but {} of its processes live on", survivors.len());
                return Ok(Progress::Unknown { why });
            }
            Life::Dead(proof) if proof.may_have_run => collect::End::Died(format!("{:?}", proof.evidence)),
            Life::Dead(_) => return Ok(never_started()),
            // Its folder was taken away while it was waited for.
            Life::NeverStarted => return self.without_session(job).await,
            Life::Unknown { why, .. } => return Ok(Progress::Unknown { why }),
            Life::Running { .. } => return Ok(Progress::Running),
        };
        self.collect(job, session, end).await
    }

    /// A host has all the time that its settings give.
    fn longest_apply(&self, _: &[String]) -> Option<TimeDelta> {
        None
    }

    async fn look(&self, run: &ProvisioningRun, phase: Phase) -> Result<Progress<()>, PortError> {
        let run = run.id;
        let start = self.newest(run, phase).max(1);
        let session = self.session(run, phase, start);
        if !session.exists() || session.join(NEVER).exists() {
            let marker = marker(run, phase, start);
            let living = blocking(move || Ok(process::left_behind(&session, &marker))).await?;
            return Ok(if living.is_empty() {
                Progress::Dead { proof: "no process of it lives".to_owned() }
            } else {
                Progress::Unknown { why: session_is_gone(living.len()) }
            });
        }
        Ok(match blocking(move || Ok(process::look(&session))).await? {
            Life::Running { .. } => Progress::Running,
            Life::Finished { .. } => Progress::Finished(()),
            Life::NeverStarted => Progress::Dead { proof: "it was never started".to_owned() },
            Life::Dead(proof) => Progress::Dead { proof: format!("{:?}", proof.evidence) },
            Life::Unknown { why, .. } => Progress::Unknown { why },
        })
    }

    async fn clean(&self, run: ProvisioningRunId, phase: Phase) -> Result<(), PortError> {
        for start in 1..=self.newest(run, phase) {
            let session = self.session(run, phase, start);
            let workspace = Workspace { root: self.workspace(run, phase, start) };
            let cleaned = blocking(move || {
                let grave = session.join(NEVER).exists();
                let over =
                    grave || !matches!(process::look(&session), Life::Running { .. } | Life::Unknown { .. });
                if phase == Phase::Apply {
                    remains::watch_dead_copy(&workspace)?;
                } else if over {
                    workspace.remove()?;
                }
                if grave {
                    std::fs::remove_dir_all(&session)?;
                } else if over {
                    process::remove(&session).map_err(std::io::Error::other)?;
                }
                Ok(())
            });
            // What stays behind costs space, not truth.
            if let Err(e) = cleaned.await {
                tracing::warn!(%run, error = %e.chain(), "a workspace could not be cleaned");
            }
        }
        Ok(())
    }

    async fn tools(&self) -> Result<BTreeMap<String, String>, PortError> {
        Ok(self.tools.get().await?.digests.clone())
    }

    fn version(&self) -> String {
        format!("runtime-cloud {} with Pulumi {}", env!("CARGO_PKG_VERSION"), tools::PULUMI_VERSION)
    }
}

/// Runs file work where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, PortError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(PortError::unavailable("the data folder", e)),
        Err(e) => Err(PortError::unavailable("the data folder", e)),
    }
}
