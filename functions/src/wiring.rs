//! Which adapter stands behind which port, and the variables that name things. Each function takes what its role
//! allows.

use std::sync::Arc;

use application::catalog::{HANDLERS, Row, Trigger, WORKERS};
use application::finish::Finisher;
use application::settings::Settings;
use application::work::consumer;
use application::workers::{Applier, Planner, RunWatch};
use application::{Consumer, handlers};
use aws::{
    DynamoRows, EventBridgeBus, LambdaPlace, ParameterStore, S3Artifacts, S3Receipts, SdkConfig, SecretNames,
    SecretsManagerBroker, SqsQueue, SqsQueues, Tables,
};
use chrono::TimeDelta;
use policies::CedarPolicies;
use ports::{Artifacts, Receipts, Runner, Store};
use pulumi::RemoteRunner;

use crate::door::{DoorError, RandomIds, SystemClock, optional, variable};
use crate::stream;
use crate::targets::Targets;
use crate::tools::Manifest;

/// An account, and the names of a stack in it.
pub struct Account {
    /// How it is reached.
    pub config: SdkConfig,
}

impl Account {
    /// Reads who and where this is.
    pub async fn connect() -> Account {
        Account { config: aws::connect().await }
    }

    /// Rows, with their connection made.
    pub async fn store(&self) -> Result<Store, DoorError> {
        let rows = DynamoRows {
            client: aws::dynamodb(&self.config),
            tables: self.tables()?,
            bodies: Arc::new(self.artifacts("rows/")?),
        };
        rows.warm().await?;
        Ok(Store::new(Arc::new(rows)))
    }

    /// Names of the tables.
    pub fn tables(&self) -> Result<Tables, DoorError> {
        Ok(Tables { prefix: variable("RUNTIME_CLOUD_TABLES")? })
    }

    /// Artifacts below a prefix.
    pub fn artifacts(&self, prefix: &str) -> Result<S3Artifacts, DoorError> {
        Ok(S3Artifacts {
            client: aws::s3(&self.config),
            bucket: variable("RUNTIME_CLOUD_ARTIFACTS_BUCKET")?,
            prefix: prefix.to_owned(),
        })
    }

    /// What `cargo xtask publish-tools` has put there.
    pub fn tools(&self) -> Result<S3Artifacts, DoorError> {
        let bucket = variable("RUNTIME_CLOUD_TOOLS_BUCKET")?;
        Ok(S3Artifacts { client: aws::s3(&self.config), bucket, prefix: "tools/".to_owned() })
    }

    /// Receipts.
    pub fn receipts(&self) -> Result<S3Receipts, DoorError> {
        let bucket = variable("RUNTIME_CLOUD_RECEIPTS_BUCKET")?;
        Ok(S3Receipts { client: aws::s3(&self.config), bucket })
    }

    /// The jobs' files.
    pub fn jobs(&self) -> Result<S3Receipts, DoorError> {
        Ok(S3Receipts { client: aws::s3(&self.config), bucket: variable("RUNTIME_CLOUD_JOBS_BUCKET")? })
    }

    /// The queues of the catalogue: workers' in order by group, handlers' filled by the bus.
    pub fn queue(&self) -> Result<SqsQueue, DoorError> {
        let mut standard: Vec<String> = HANDLERS.iter().map(|row| row.name.to_owned()).collect();
        standard.extend([RUNNER_FINISHED.to_owned(), stream::NAME.to_owned()]);
        Ok(SqsQueue {
            client: aws::sqs(&self.config),
            counts: aws::dynamodb(&self.config),
            counts_table: format!("{}Messages", variable("RUNTIME_CLOUD_TABLES")?),
            queues: SqsQueues {
                url_prefix: variable("RUNTIME_CLOUD_QUEUES")?,
                fifo: WORKERS.iter().filter(|row| has_queue(row)).map(|row| row.name.to_owned()).collect(),
                standard,
            },
            clock: Arc::new(SystemClock),
        })
    }

    /// The bus.
    pub fn bus(&self) -> Result<EventBridgeBus, DoorError> {
        Ok(EventBridgeBus { client: aws::event_bridge(&self.config), bus: variable("RUNTIME_CLOUD_BUS")? })
    }

    /// Configuration.
    pub fn config_platform(&self) -> Result<ParameterStore, DoorError> {
        let prefix = variable("RUNTIME_CLOUD_PARAMETERS")?;
        Ok(ParameterStore { client: aws::ssm(&self.config), prefix })
    }

    /// Secrets.
    pub fn secrets(&self) -> Result<SecretsManagerBroker, DoorError> {
        let names = SecretNames(variable("RUNTIME_CLOUD_SECRETS")?);
        let client = aws::secrets_manager(&self.config);
        Ok(SecretsManagerBroker { client, names, ids: Arc::new(RandomIds) })
    }

    /// Runs that happen in the runner function.
    pub async fn runner(&self) -> Result<RemoteRunner, DoorError> {
        let manifest = Manifest::read(&self.tools()?, &variable("RUNTIME_CLOUD_TOOLS")?).await?;
        let place = LambdaPlace {
            lambda: aws::lambda(&self.config),
            sts: aws::sts(&self.config),
            function: variable("RUNTIME_CLOUD_RUNNER")?,
            job_role: variable("RUNTIME_CLOUD_JOB_ROLE")?,
            jobs_bucket: variable("RUNTIME_CLOUD_JOBS_BUCKET")?,
            secrets: SecretNames(variable("RUNTIME_CLOUD_SECRETS")?),
            secrets_arn: variable("RUNTIME_CLOUD_SECRETS_ARN")?,
            clock: Arc::new(SystemClock),
        };
        let jobs: Arc<dyn Receipts> = Arc::new(self.jobs()?);
        Ok(RemoteRunner {
            files: jobs,
            place: Arc::new(place),
            clock: Arc::new(SystemClock),
            tools: manifest.digests(),
            scratch: std::env::temp_dir().join("runtime-cloud-scratch"),
            version: format!("runtime-cloud {} on Lambda", env!("CARGO_PKG_VERSION")),
        })
    }
}

/// A worker that a schedule wakes has none here: its function is called.
fn has_queue(row: &Row) -> bool {
    matches!(row.trigger, Trigger::Event(_))
}

/// The queue of what the jobs' bucket tells.
pub const RUNNER_FINISHED: &str = "RunnerFinished";

/// A function's own end: a run that may take longer is planned and applied elsewhere.
const LONGEST: TimeDelta = TimeDelta::minutes(13);

/// The settings of a stack.
pub fn settings() -> Result<Arc<Settings>, DoorError> {
    let hours = optional("RUNTIME_CLOUD_APPROVAL_HOURS").and_then(|h| h.parse().ok());
    let usual = Settings::default();
    Ok(Arc::new(Settings {
        approval_expiry: hours.map_or(usual.approval_expiry, TimeDelta::hours),
        plan_limit: usual.plan_limit,
        apply_limit: LONGEST,
        ..usual
    }))
}

/// Plans.
pub async fn planner(account: &Account) -> Result<Arc<dyn Consumer>, DoorError> {
    let secrets = Arc::new(account.secrets()?);
    let planner = Planner {
        store: account.store().await?,
        receipts: Arc::new(account.receipts()?),
        artifacts: Arc::new(account.artifacts("artifacts/")?),
        runner: Arc::new(account.runner().await?),
        policy: Arc::new(CedarPolicies::load(None)?),
        config: Arc::new(account.config_platform()?),
        secrets,
        environments: Arc::new(Targets),
        clock: Arc::new(SystemClock),
        settings: settings()?,
    };
    Ok(consumer(planner).into())
}

/// Applies.
pub async fn applier(account: &Account) -> Result<Arc<dyn Consumer>, DoorError> {
    let artifacts: Arc<dyn Artifacts> = Arc::new(account.artifacts("artifacts/")?);
    let applier = Applier {
        finisher: Finisher {
            store: account.store().await?,
            receipts: Arc::new(account.receipts()?),
            artifacts,
        },
        runner: Arc::new(account.runner().await?),
        policy: Arc::new(CedarPolicies::load(None)?),
        config: Arc::new(account.config_platform()?),
        secrets: Arc::new(account.secrets()?),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        settings: settings()?,
    };
    Ok(consumer(applier).into())
}

/// Watches runs.
pub async fn run_watch(account: &Account) -> Result<RunWatch, DoorError> {
    let runner: Arc<dyn Runner> = Arc::new(account.runner().await?);
    Ok(RunWatch { store: account.store().await?, runner, settings: settings()? })
}

/// The handlers of inbound events.
pub async fn handlers(account: &Account) -> Result<Vec<Arc<dyn Consumer>>, DoorError> {
    let (store, settings) = (account.store().await?, settings()?);
    Ok(vec![
        consumer(handlers::ProvisionPromotion { store: store.clone(), settings: settings.clone() }).into(),
        consumer(handlers::ProvisionBaseline { store: store.clone(), settings }).into(),
        consumer(handlers::ApplyApproval { store }).into(),
    ])
}
