//! Hands programs over: a promotion with its approval, or a plan on demand.

use application::commands::plan_provisioning::{PlanRequest, ProgramReference};
use application::declare::Declared;
use clap::Args;
use embedded::RandomIds;
use events::{
    ApprovalId, CommitHash, ConfigRef, EnvironmentId, Program, ProjectId, PromotionApproval,
    PromotionApproved, PromotionId, ProvisioningRunId, ReleaseId, SecretRef,
};
use ports::Ids;
use serde_json::{Value, json};

use super::client::{CliError, Client, part};
use super::environments::envelope;
use super::say::say;
use super::{Context, exit, runs, table};

/// A program and what it reads.
#[derive(Args, Clone)]
pub struct ProgramArgs {
    /// URL or path of the Git repository.
    #[arg(long)]
    repository: Option<String>,
    /// The program's folder in it.
    #[arg(long, default_value = ".")]
    path: String,
    /// Branch, tag or commit; it is resolved to a full commit first.
    #[arg(long = "ref", default_value = "HEAD")]
    reference: String,
    /// KEY=REFERENCE of a configuration value.
    #[arg(long, value_name = "KEY=REF")]
    config: Vec<String>,
    /// KEY=REFERENCE of a secret.
    #[arg(long, value_name = "KEY=REF")]
    secret: Vec<String>,
}

impl ProgramArgs {
    fn repository(&self) -> Result<String, CliError> {
        let given = self.repository.clone();
        let given =
            given.ok_or_else(|| CliError::new(exit::USAGE, "give the repository with --repository"))?;
        // A relative path means something else to the host.
        match std::fs::canonicalize(&given) {
            Ok(path) => Ok(path.to_string_lossy().into_owned()),
            Err(_) => Ok(given),
        }
    }

    fn pairs<T>(given: &[String], make: impl Fn(String, String) -> T) -> Result<Vec<T>, CliError> {
        given
            .iter()
            .map(|text| match text.split_once('=') {
                Some((key, reference)) if !key.trim().is_empty() && !reference.trim().is_empty() => {
                    Ok(make(key.to_owned(), reference.to_owned()))
                }
                Some(_) | None => Err(CliError::new(
                    exit::USAGE,
                    format!("{text:?} is no KEY=REF; write the key, =, and the reference"),
                )),
            })
            .collect()
    }

    fn config_refs(&self) -> Result<Vec<ConfigRef>, CliError> {
        Self::pairs(&self.config, |key, reference| ConfigRef { key, reference })
    }

    fn secret_refs(&self) -> Result<Vec<SecretRef>, CliError> {
        Self::pairs(&self.secret, |key, reference| SecretRef { key, reference })
    }
}

/// Hands over a program for an environment, with your approval.
#[derive(Args)]
pub struct Promote {
    /// Where to.
    #[arg(long)]
    environment: EnvironmentId,
    /// The program.
    #[command(flatten)]
    program: ProgramArgs,
    /// How to roll out; passed to the program.
    #[arg(long)]
    strategy: Option<String>,
    /// The release; by default a new one.
    #[arg(long)]
    release: Option<ReleaseId>,
    /// The promotion: the same one again is the same run.
    #[arg(long)]
    promotion: Option<PromotionId>,
    /// The environment's project.
    #[arg(long, default_value = "default")]
    project: ProjectId,
    /// Waits for the end.
    #[arg(long)]
    watch: bool,
}

/// The full commit of a reference.
pub fn resolve(client: &Client, repository: &str, reference: &str) -> Result<CommitHash, CliError> {
    let answer: Value = client.post("/v1/resolve", &json!({ "repository": repository, "ref": reference }))?;
    let commit = answer.get("commit").and_then(Value::as_str).unwrap_or_default();
    CommitHash::new(commit).map_err(CliError::failed)
}

impl Promote {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let client = context.client()?;
        let repository = self.program.repository()?;
        let commit = resolve(&client, &repository, &self.program.reference)?;
        let promotion = self.promotion.unwrap_or_else(|| PromotionId(RandomIds.fresh()));
        let release = self.release.unwrap_or_else(|| ReleaseId(RandomIds.fresh()));
        let repeat = format!(
            "nobody knows whether it was taken in: repeat with --promotion {promotion} --release {release} --ref {commit}"
        );
        let event = PromotionApproved {
            promotion_id: promotion,
            tenant_id: context.tenant.clone(),
            project_id: self.project.clone(),
            environment_id: self.environment.clone(),
            release_id: release,
            approval: PromotionApproval {
                approval_id: ApprovalId(RandomIds.fresh()),
                decided_by: context.person.clone(),
                decided_at: ports::Clock::now(&embedded::SystemClock),
                expires_at: None,
            },
            program: Program { repository, path: self.program.path.clone(), commit },
            strategy: self.strategy.clone(),
            config_refs: self.program.config_refs()?,
            secret_refs: self.program.secret_refs()?,
        };
        let id = promotion.to_string();
        client.publish(&envelope(&event, &id)?).map_err(|e| e.or_else(&repeat))?;
        let run = domain::provisioning_run::run_id(&context.tenant, "promotion", &id, 1);
        if self.watch {
            runs::begun(&client, run, &id)?;
        }
        follow(context, &client, run, self.watch)
    }
}

fn follow(context: &Context, client: &Client, run: ProvisioningRunId, watch: bool) -> Result<i32, CliError> {
    if watch {
        let next = format!("follow it with `runtime-cloud runs watch {run}`");
        return runs::watch(context, client, run).map_err(|e| e.or_else(&next));
    }
    if context.json {
        table::json(&json!({ "provisioningRunId": run }))?;
    } else {
        say!("run {run}; follow it with `runtime-cloud runs watch {run}`")?;
    }
    Ok(exit::OK)
}

/// Plans a program, or an earlier run again.
#[derive(Args)]
pub struct Plan {
    /// Where; with --rerun, the run's own.
    #[arg(long, required_unless_present = "rerun")]
    environment: Option<EnvironmentId>,
    /// The program.
    #[command(flatten)]
    program: ProgramArgs,
    /// A run to repeat.
    #[arg(long, conflicts_with_all = ["repository", "path", "reference", "config", "secret"])]
    rerun: Option<String>,
    /// The request's id: the same one again is the same run; by default a new one.
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Waits for the end.
    #[arg(long)]
    watch: bool,
}

impl Plan {
    /// Runs it.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        let client = context.client()?;
        let rerun = self.rerun.as_deref().map(|r| runs::find(&client, r)).transpose()?;
        let environment = match (&self.environment, &rerun) {
            (Some(environment), _) => environment.clone(),
            (None, Some(run)) => run.environment_id.clone(),
            (None, None) => return Err(CliError::new(exit::USAGE, "give --environment")),
        };
        let program = match rerun {
            Some(_) => None,
            None => Some(ProgramReference {
                repository: self.program.repository()?,
                path: self.program.path.clone(),
                reference: self.program.reference.clone(),
            }),
        };
        let id = self.request.clone().unwrap_or_else(|| RandomIds.fresh().to_string());
        let repeat = format!("nobody knows whether it was taken in: repeat with --request {id}");
        let request = PlanRequest {
            request_id: id,
            environment_id: environment.clone(),
            program,
            rerun_of: rerun.map(|r| r.provisioning_run_id),
            config_refs: self.program.config_refs()?,
            secret_refs: self.program.secret_refs()?,
        };
        let path = format!("/v1/environments/{}/provisioning-runs", part(environment.as_str()));
        let declared: Declared = client.post(&path, &request).map_err(|e| e.or_else(&repeat))?;
        follow(context, &client, declared.provisioning_run_id, self.watch)
    }
}
