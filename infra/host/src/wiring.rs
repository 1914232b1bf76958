//! Which adapter stands behind which port.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use application::commands::{CancelProvisioning, PlanProvisioning, Recover};
use application::finish::Finisher;
use application::handlers::{ApplyApproval, ProvisionBaseline, ProvisionPromotion};
use application::relay::Relay;
use application::work::consumer;
use application::workers::{Applier, Planner, RunWatch};
use application::{Consumer, Settings, Worker, catalog};
use async_trait::async_trait;
use domain::receipt::TargetCheck;
use embedded::{
    Backup, Database, DiskArtifacts, DiskReceipts, EmbeddedBus, EmbeddedConfig, EmbeddedLetters,
    EmbeddedQueue, FileSecrets, RandomIds, Rule, Schedule, Schedules, SecretCommand, SqliteRows, SystemClock,
};
use events::{
    ApprovalDecided, Envelope, EnvironmentCreated, InboundData, PromotionApproved, Target, TargetKind,
};
use git::{GitPrograms, GitSource, Limits};
use http_api::Api;
use policies::CedarPolicies;
use ports::{Artifacts, Clock, EnvironmentReader, Ids, PortError, Receipts, Rows, Runner, Store};
use pulumi::{HostRunner, HostRunnerSettings, ToolBox};

use crate::crash_points::{CrashPoint, CrashingReceipts, CrashingRows};
use crate::host::HostError;
use crate::operations::HostOperations;
use crate::people::People;
use crate::programs;
use crate::settings::HostSettings;

/// Everything, wired.
pub struct Wired {
    pub database: Database,
    pub queue: EmbeddedQueue,
    pub relay: Relay,
    pub consumers: Vec<Arc<dyn Consumer>>,
    pub schedules: Schedules,
    pub schedule_table: Vec<Schedule>,
    pub operations: Arc<HostOperations>,
    pub api: Arc<Api>,
    pub settings: Arc<Settings>,
    pub clock: Arc<dyn Clock>,
}

/// How long the command that gives secrets may take.
const SECRET_COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// Targets that this host can ask.
struct HostTargets;

#[async_trait]
impl EnvironmentReader for HostTargets {
    async fn reach(&self, target: &Target) -> Result<TargetCheck, PortError> {
        Ok(match target.kind {
            TargetKind::Local => TargetCheck { reachable: true, detail: "this machine".to_owned() },
            TargetKind::Kubernetes | TargetKind::Aws => TargetCheck {
                reachable: false,
                detail: format!(
                    "this host can't ask {} targets: the plan was not checked against it",
                    target.kind
                ),
            },
        })
    }
}

fn rules() -> Arc<[Rule]> {
    Arc::new([
        rule::<ProvisionPromotion>(PromotionApproved::TOPIC),
        rule::<ProvisionBaseline>(EnvironmentCreated::TOPIC),
        rule::<ApplyApproval>(ApprovalDecided::TOPIC),
    ])
}

fn rule<W: Worker<Input = Envelope>>(topic: &'static str) -> Rule {
    Rule { topic, queue: W::ROW.name, group: W::group }
}

/// This program under the name of the local provider.
fn provider_link(data: &Path, program: &Path) -> std::io::Result<PathBuf> {
    let link = data.join("bin").join("pulumi-resource-local");
    std::fs::create_dir_all(data.join("bin"))?;
    match std::fs::remove_file(&link) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        Ok(()) | Err(_) => {}
    }
    // A hard link keeps its file when the program is upgraded under a running host; across file systems a link does.
    if std::fs::hard_link(program, &link).is_err() {
        std::os::unix::fs::symlink(program, &link)?;
    }
    Ok(link)
}

/// Wires a host on a locked data folder.
pub fn wire(data: &Path, host: &HostSettings, tools: Arc<ToolBox>) -> Result<Wired, HostError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn Ids> = Arc::new(RandomIds);
    let crash = CrashPoint::read();
    let database = Database::open(&data.join("store.sqlite"))?;
    let mut rows: Arc<dyn Rows> = Arc::new(SqliteRows(database.clone()));
    let mut receipts: Arc<dyn Receipts> =
        Arc::new(DiskReceipts { folder: data.join("receipts"), ids: Arc::clone(&ids) });
    if let Some(crash) = crash {
        rows = Arc::new(CrashingRows(rows, crash.clone()));
        receipts = Arc::new(CrashingReceipts(receipts, crash));
    }
    let store = Store::new(rows);
    let artifacts: Arc<dyn Artifacts> =
        Arc::new(DiskArtifacts { folder: data.join("artifacts"), ids: Arc::clone(&ids) });
    let queue =
        EmbeddedQueue { database: database.clone(), clock: Arc::clone(&clock), ids: Arc::clone(&ids) };
    let bus = EmbeddedBus { database: database.clone(), clock: Arc::clone(&clock), rules: rules() };
    let config = EmbeddedConfig { database: database.clone(), clock: Arc::clone(&clock) };
    let secrets = Arc::new(FileSecrets {
        folder: data.join("secrets"),
        command: host
            .secret_command
            .clone()
            .map(|program| SecretCommand { program, limit: SECRET_COMMAND_LIMIT }),
        ids: Arc::clone(&ids),
    });
    let policy =
        Arc::new(CedarPolicies::load(host.policies.as_deref())?.protecting(host.protected_types.clone()));
    let programs = Arc::new(GitPrograms {
        source: GitSource::new(data.join("git"), Limits::default()),
        secrets: secrets.clone(),
        clock: Arc::clone(&clock),
    });
    let io = |source| HostError::Io { what: data.display().to_string(), source };
    let program = std::env::current_exe().map_err(io)?;
    let pass = |name: &String| Some((name.clone(), std::env::var_os(name)?.into_string().ok()?));
    let runner: Arc<dyn Runner> = Arc::new(HostRunner {
        settings: HostRunnerSettings {
            data: data.to_owned(),
            local_provider: Some(provider_link(data, &program).map_err(io)?),
            program,
            local_version: env!("CARGO_PKG_VERSION").to_owned(),
            path: std::env::var_os("PATH").and_then(|p| p.into_string().ok()).unwrap_or_default(),
            environment: host.pass_environment.iter().filter_map(pass).collect(),
            grace: host.grace(),
            output_limit: host.output_limit_bytes,
        },
        tools: Arc::clone(&tools),
        programs: programs.clone(),
        secrets: secrets.clone(),
    });
    let settings = Arc::new(host.application(Some(programs::baseline(data)?)));
    let finisher =
        || Finisher { store: store.clone(), receipts: receipts.clone(), artifacts: artifacts.clone() };
    let config_port: Arc<dyn ports::ConfigPlatform> = Arc::new(config.clone());

    let consumers: Vec<Arc<dyn Consumer>> = vec![
        consumer(Planner {
            store: store.clone(),
            receipts: receipts.clone(),
            artifacts: artifacts.clone(),
            runner: runner.clone(),
            policy: policy.clone(),
            config: config_port.clone(),
            secrets: secrets.clone(),
            environments: Arc::new(HostTargets),
            clock: clock.clone(),
            settings: settings.clone(),
        })
        .into(),
        consumer(Applier {
            finisher: finisher(),
            runner: runner.clone(),
            policy: policy.clone(),
            config: config_port,
            secrets,
            clock: clock.clone(),
            ids: ids.clone(),
            settings: settings.clone(),
        })
        .into(),
        consumer(RunWatch {
            store: store.clone(),
            runner: runner.clone(),
            queue: Arc::new(queue.clone()),
            settings: settings.clone(),
        })
        .into(),
        consumer(ProvisionPromotion { store: store.clone(), settings: settings.clone() }).into(),
        consumer(ProvisionBaseline { store: store.clone(), settings: settings.clone() }).into(),
        consumer(ApplyApproval { store: store.clone() }).into(),
    ];
    let mut schedule_table = vec![];
    for row in catalog::WORKERS {
        if let catalog::Trigger::Schedule(cron) = row.trigger {
            schedule_table.push(Schedule::new(row.name, row.group, cron)?);
        }
    }
    let operations = Arc::new(HostOperations {
        config,
        backup: Backup(database.clone()),
        data: data.to_owned(),
        backups_kept: host.backups_kept,
        tools,
        queue: queue.clone(),
        store: store.clone(),
        bus: bus.clone(),
        clock: clock.clone(),
    });
    let api = Arc::new(Api {
        identity: Arc::new(People::of(data)),
        store: store.clone(),
        receipts: receipts.clone(),
        artifacts: artifacts.clone(),
        bus: Arc::new(bus.clone()),
        log: operations.clone(),
        queue: Arc::new(queue.clone()),
        policy,
        programs: programs.clone(),
        operations: operations.clone(),
        clock: clock.clone(),
        ids,
        plan: PlanProvisioning { store: store.clone(), programs, settings: settings.clone() },
        cancel: CancelProvisioning { store: store.clone(), runner: runner.clone() },
        recover: Recover { finisher: finisher(), runner },
    });
    let relay = Relay {
        letters: Arc::new(EmbeddedLetters(database.clone())),
        queue: Arc::new(queue.clone()),
        bus: Arc::new(bus),
    };
    let schedules = Schedules { database: database.clone(), clock: clock.clone() };
    Ok(Wired {
        database,
        queue,
        relay,
        consumers,
        schedules,
        schedule_table,
        operations,
        api,
        settings,
        clock,
    })
}
