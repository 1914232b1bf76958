//! The whole of a promotion on this machine, on the real parts: a Git repository, Pulumi, processes and files, the
//! durable store, receipts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use application::commands::plan_provisioning::{PlanRequest, ProgramReference};
use application::declare::Declared;
use application::queries::{ChainReport, RunView};
use clap::Args;
use domain::aggregate::{encode, file_name};
use domain::receipt::{ApplyReceipt, PlanReceipt};
use embedded::RandomIds;
use events::{
    ApprovalId, EnvironmentClass, EnvironmentId, Principal, Program, ProjectId, PromotionApproval,
    PromotionApproved, PromotionId, ProvisioningRunId, ProvisioningState, ReleaseId, Target, TargetKind,
    TenantId,
};
use http_api::LoggedEvent;
use ports::Ids;
use serde_json::{Value, json};

use super::client::{CliError, Client, part};
use super::environments::{created, envelope};
use super::say::{self, say};
use super::{Context, exit, receipts, table, up};
use crate::host::Host;
use crate::programs;

/// The demo.
#[derive(Args)]
pub struct Demo {
    /// Ends when it is done, instead of leaving the host up; what it started is stopped.
    #[arg(long)]
    exit: bool,
}

/// How long any step of the demo may take once Pulumi is there.
const LIMIT: Duration = Duration::from_secs(120);

impl Demo {
    /// Runs it. Without a folder of its own it works in a temporary one, which goes with it.
    pub fn run(&self, context: &Context, given: bool) -> Result<i32, CliError> {
        up::log();
        let temporary = if given { None } else { Some(tempfile::tempdir().map_err(CliError::failed)?) };
        let data = temporary.as_ref().map_or_else(|| context.data.clone(), |t| t.path().to_owned());
        let context = Context {
            data: data.clone(),
            person: context.person.clone(),
            tenant: context.tenant.clone(),
            json: context.json,
            server: None,
        };
        let tenant = context.tenant.clone();
        let tools = up::tool_box();
        let runtime = up::runtime()?;
        say!("Getting Pulumi ready ...")?;
        let found = runtime.block_on(tools.get()).map_err(CliError::failed)?;
        say!("Pulumi {} ({:?}): {}", found.version, found.origin, found.pulumi.display())?;
        let host = runtime.block_on(Host::start(&data, 0, Arc::clone(&tools))).map_err(CliError::failed)?;
        let told = say!("Host on http://{}, data in {}", host.address, data.display())
            .and_then(|()| Story::new(context, &data))
            .and_then(|story| story.tell());
        let stays = told.and_then(|()| match self.exit {
            true => Ok(false),
            false => say!(
                "\nThe host stays up: look around with `runtime-cloud --data {} runs list`; Ctrl-C ends it.",
                data.display()
            )
            .map(|()| true),
        });
        let code = match stays {
            Ok(true) => runtime.block_on(up::wait_and_stop(host)),
            told => {
                runtime.block_on(host.stop());
                told.map(|_| exit::OK)
            }
        };
        runtime.shutdown_timeout(Duration::from_millis(200));
        // What the demo started in a folder that goes, goes too.
        if temporary.is_some() || self.exit {
            stop_services(&data, &tenant);
        }
        code
    }
}

/// Where the demo works; what else a data folder holds isn't its own.
const DEVELOPMENT: &str = "demo-development";
const PRODUCTION: &str = "demo-production";

/// Stops the services of the demo's environments.
fn stop_services(data: &Path, tenant: &TenantId) {
    let tenant = data.join("local").join(file_name(&encode(tenant.as_str())));
    for environment in [DEVELOPMENT, PRODUCTION] {
        match local::stop_all(&tenant.join(environment)) {
            Ok(stopped) => {
                for service in stopped {
                    let (name, processes) = (service.name, service.processes.len());
                    // The rest is stopped whether or not somebody reads this.
                    drop(say!("stopped service {name} ({processes} processes)"));
                }
            }
            Err(e) => say::aside(format_args!("services of {environment} could not be stopped: {e}")),
        }
    }
}

struct Story {
    context: Context,
    client: Client,
    second: Client,
    second_name: Principal,
    repository: PathBuf,
    project: ProjectId,
}

fn id<T>(result: Result<T, events::IdError>) -> Result<T, CliError> {
    result.map_err(CliError::failed)
}

impl Story {
    fn new(context: Context, data: &Path) -> Result<Story, CliError> {
        let second_name = id(Principal::new("second-person"))?;
        Ok(Story {
            client: context.client()?,
            second: Client::of(data, &second_name, &context.tenant)?,
            second_name,
            repository: data.join("sample.git"),
            project: id(ProjectId::new("demo"))?,
            context,
        })
    }

    fn tell(&self) -> Result<(), CliError> {
        let development = id(EnvironmentId::new(DEVELOPMENT))?;
        let production = id(EnvironmentId::new(PRODUCTION))?;

        heading("1. A promotion to a development environment")?;
        self.create(&development, EnvironmentClass::Development)?;
        let hello = self.program("hello")?;
        let run = self.promote(&development, &hello)?;
        self.show_applied(&self.rest(run)?)?;

        heading("2. A promotion to production: its approval covers the apply")?;
        self.create(&production, EnvironmentClass::Production)?;
        let run = self.promote(&production, &hello)?;
        self.show_applied(&self.rest(run)?)?;

        heading("3. A manual plan in production waits, and another person approves it")?;
        let welcome = self.program("welcome")?;
        let run = self.plan(&production, &welcome)?;
        let waiting = self.rest(run)?;
        table::run(&waiting)?;
        self.expect(&waiting, ProvisioningState::AwaitingApproval)?;
        let own = self.decide(&self.client, &waiting);
        say!("{} tries to approve its own request: {}", self.context.person, said(&own))?;
        if own.is_ok() {
            return Err(CliError::new(exit::FAILED, "a requester could approve their own run"));
        }
        self.decide(&self.second, &waiting)?;
        say!("{} approves plan {}", self.second_name, digest(&waiting))?;
        self.show_applied(&self.end(run)?)?;

        heading("4. A plan is approved after something moved under it: it is refused, nothing is touched")?;
        let late = self.program("too late")?;
        let run = self.plan(&production, &late)?;
        let waiting = self.rest(run)?;
        self.expect(&waiting, ProvisioningState::AwaitingApproval)?;
        let between = self.program("in between")?;
        let other = self.promote(&production, &between)?;
        let other = self.rest(other)?;
        self.expect(&other, ProvisioningState::Applied)?;
        say!("while plan {} waited, another promotion was applied", digest(&waiting))?;
        self.decide(&self.second, &waiting)?;
        let stale = self.end(run)?;
        table::run(&stale)?;
        self.expect(&stale, ProvisioningState::Failed)?;
        let reason = stale.failure.as_ref().map(|f| f.reason.code()).unwrap_or_default();
        if reason != "plan-stale" {
            return Err(CliError::new(exit::FAILED, format!("expected plan-stale, got {reason}")));
        }

        heading("Receipts and events")?;
        for environment in [&development, &production] {
            let path = format!("/v1/environments/{}/receipts", part(environment.as_str()));
            let report: ChainReport = self.client.get(&path)?;
            say!("{environment}: {} link(s) of the receipt chain hold", report.verified)?;
            if let Some(broken) = report.broken {
                return Err(CliError::new(exit::FAILED, broken));
            }
        }
        let logged: Vec<LoggedEvent> = self.client.get("/v1/events?limit=1000")?;
        super::events::show(&logged)?;
        table::runs(&self.client.get::<Vec<RunView>>("/v1/provisioning-runs")?)
    }

    fn program(&self, greeting: &str) -> Result<Program, CliError> {
        let program = programs::sample(&self.repository, greeting).map_err(CliError::failed)?;
        say!("committed {} to {}", program.commit.short(), self.repository.display())?;
        Ok(program)
    }

    fn create(&self, environment: &EnvironmentId, class: EnvironmentClass) -> Result<(), CliError> {
        let here = Target { kind: TargetKind::Local, reference: "this-machine".to_owned() };
        let event = created(&self.context, environment, class, &self.project, "local", vec![here]);
        self.client.publish(&envelope(&event, &RandomIds.fresh().to_string())?)?;
        say!("EnvironmentCreated {environment} ({class})")?;
        Ok(())
    }

    fn promote(&self, environment: &EnvironmentId, program: &Program) -> Result<ProvisioningRunId, CliError> {
        let promotion = PromotionId(RandomIds.fresh());
        let event = PromotionApproved {
            promotion_id: promotion,
            tenant_id: self.context.tenant.clone(),
            project_id: self.project.clone(),
            environment_id: environment.clone(),
            release_id: ReleaseId(RandomIds.fresh()),
            approval: PromotionApproval {
                approval_id: ApprovalId(RandomIds.fresh()),
                decided_by: self.second_name.clone(),
                decided_at: ports::Clock::now(&embedded::SystemClock),
                expires_at: None,
            },
            program: program.clone(),
            strategy: None,
            config_refs: vec![],
            secret_refs: vec![],
        };
        self.second.publish(&envelope(&event, &promotion.to_string())?)?;
        say!("PromotionApproved {promotion} of {} for {environment}", program.commit.short())?;
        Ok(domain::provisioning_run::run_id(&self.context.tenant, "promotion", &promotion.to_string(), 1))
    }

    fn plan(&self, environment: &EnvironmentId, program: &Program) -> Result<ProvisioningRunId, CliError> {
        let request = PlanRequest {
            request_id: RandomIds.fresh().to_string(),
            environment_id: environment.clone(),
            program: Some(ProgramReference {
                repository: program.repository.clone(),
                path: program.path.clone(),
                reference: program.commit.to_string(),
            }),
            rerun_of: None,
            config_refs: vec![],
            secret_refs: vec![],
        };
        let path = format!("/v1/environments/{}/provisioning-runs", part(environment.as_str()));
        let declared: Declared = self.client.post(&path, &request)?;
        say!("PlanProvisioning {} by {}", declared.provisioning_run_id, self.context.person)?;
        Ok(declared.provisioning_run_id)
    }

    fn decide(&self, who: &Client, run: &RunView) -> Result<Value, CliError> {
        let path = format!("/v1/provisioning-runs/{}/approval", run.provisioning_run_id);
        who.post(&path, &json!({ "decision": "approved", "planDigest": digest(run) }))
    }

    /// Follows a run until `enough` says so.
    fn follow(&self, run: ProvisioningRunId, enough: impl Fn(&RunView) -> bool) -> Result<RunView, CliError> {
        let until = Instant::now() + LIMIT;
        loop {
            match self.client.get::<RunView>(&format!("/v1/provisioning-runs/{run}")) {
                Ok(view) if enough(&view) => return Ok(view),
                Ok(_) => {}
                // Its event may still be on its way.
                Err(e) if e.code == exit::NOT_FOUND => {}
                Err(e) => return Err(e),
            }
            if Instant::now() > until {
                return Err(CliError::new(exit::FAILED, format!("run {run} did not end in {LIMIT:?}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn rest(&self, run: ProvisioningRunId) -> Result<RunView, CliError> {
        self.follow(run, super::runs::rests)
    }

    fn end(&self, run: ProvisioningRunId) -> Result<RunView, CliError> {
        self.follow(run, |view| view.completed_at.is_some())
    }

    fn expect(&self, run: &RunView, state: ProvisioningState) -> Result<(), CliError> {
        if run.state == state {
            return Ok(());
        }
        let message =
            format!("run {} is {} and not {state}: {}", run.provisioning_run_id, run.state, run.detail);
        Err(CliError::new(exit::FAILED, message))
    }

    fn show_applied(&self, run: &RunView) -> Result<(), CliError> {
        self.expect(run, ProvisioningState::Applied)?;
        let path = format!("/v1/provisioning-runs/{}", run.provisioning_run_id);
        let plan: PlanReceipt = self.client.get(&format!("{path}/plan-receipt"))?;
        say!("\nPlan receipt {}:", run.plan_receipt.as_deref().unwrap_or_default())?;
        receipts::plan(&plan)?;
        let apply: ApplyReceipt = self.client.get(&format!("{path}/apply-receipt"))?;
        say!("\nApply receipt {}:", run.apply_receipt.as_deref().unwrap_or_default())?;
        say!("result {:?} after {} ms, let through by {}", apply.result, apply.duration_ms, apply.authority)?;
        say!("outputs {}", apply.outputs)
    }
}

fn digest(run: &RunView) -> String {
    run.plan_summary.as_ref().map(|p| p.digest.clone()).unwrap_or_default()
}

fn said(result: &Result<Value, CliError>) -> String {
    match result {
        Ok(answer) => answer.to_string(),
        Err(e) => e.to_string(),
    }
}

fn heading(text: &str) -> Result<(), CliError> {
    say!("\n== {text} ==")
}
