//! Which adapter stands behind which port, and the variables that name things. Each function takes what its role
//! allows.

use std::sync::Arc;

use application::catalog::{HANDLERS, WORKERS};
use application::finish::Finisher;
use application::settings::Settings;
use application::work::consumer;
use application::workers::{Applier, Planner, RunWatch};
use application::{Consumer, handlers};
use aws::{
    Clients, DynamoRows, EventBridgeBus, JobRole, LambdaPlace, ParameterStore, S3Artifacts, S3Receipts,
    SecretNames, SecretsManagerBroker, SqsQueue, SqsQueues, Tables, TaskPlace,
};
use chrono::TimeDelta;
use policies::CedarPolicies;
use ports::{Artifacts, Receipts, RunnerPlace, Store};
use pulumi::{Choice, Places, RemoteRunner, RemoteStopper, SHORT_TYPES};

use crate::door::{DoorError, RandomIds, SystemClock, optional, variable};
use crate::stream;
use crate::targets::Targets;
use crate::tools::Manifest;

/// An account, and the names of a stack in it.
pub struct Account {
    /// How it is reached.
    pub clients: Clients,
}

impl Account {
    /// Reads who and where this is.
    pub async fn connect() -> Account {
        let clients = Clients::of_function(optional("AWS_LAMBDA_FUNCTION_NAME").as_deref()).await;
        Account { clients }
    }

    /// Rows, with their connection made.
    pub async fn store(&self) -> Result<Store, DoorError> {
        let rows = DynamoRows {
            client: self.clients.dynamodb(),
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
            client: self.clients.s3(),
            bucket: variable("RUNTIME_CLOUD_ARTIFACTS_BUCKET")?,
            prefix: prefix.to_owned(),
        })
    }

    /// What `cargo xtask publish-tools` has put there.
    pub fn tools(&self) -> Result<S3Artifacts, DoorError> {
        let bucket = variable("RUNTIME_CLOUD_TOOLS_BUCKET")?;
        Ok(S3Artifacts { client: self.clients.s3(), bucket, prefix: "tools/".to_owned() })
    }

    /// Receipts.
    pub fn receipts(&self) -> Result<S3Receipts, DoorError> {
        let bucket = variable("RUNTIME_CLOUD_RECEIPTS_BUCKET")?;
        Ok(S3Receipts { client: self.clients.s3(), bucket })
    }

    /// The jobs' files.
    pub fn jobs(&self) -> Result<S3Receipts, DoorError> {
        Ok(S3Receipts { client: self.clients.s3(), bucket: variable("RUNTIME_CLOUD_JOBS_BUCKET")? })
    }

    /// The queues of the catalogue: workers' in order by group, handlers' filled by the bus.
    pub fn queue(&self) -> Result<SqsQueue, DoorError> {
        let mut standard: Vec<String> = HANDLERS.iter().map(|row| row.name.to_owned()).collect();
        standard.extend([RUNNER_FINISHED.to_owned(), stream::NAME.to_owned()]);
        Ok(SqsQueue {
            client: self.clients.sqs(),
            counts: self.clients.dynamodb(),
            counts_table: format!("{}Messages", variable("RUNTIME_CLOUD_TABLES")?),
            queues: SqsQueues {
                url_prefix: variable("RUNTIME_CLOUD_QUEUES")?,
                fifo: WORKERS.iter().map(|row| row.name.to_owned()).collect(),
                standard,
                unread: vec![stream::NAME.to_owned()],
            },
            clock: Arc::new(SystemClock),
        })
    }

    /// The bus.
    pub fn bus(&self) -> Result<EventBridgeBus, DoorError> {
        Ok(EventBridgeBus { client: self.clients.event_bridge(), bus: variable("RUNTIME_CLOUD_BUS")? })
    }

    /// Configuration.
    pub fn config_platform(&self) -> Result<ParameterStore, DoorError> {
        let prefix = variable("RUNTIME_CLOUD_PARAMETERS")?;
        Ok(ParameterStore { client: self.clients.ssm(), prefix })
    }

    /// Secrets.
    pub fn secrets(&self) -> Result<SecretsManagerBroker, DoorError> {
        let names = SecretNames(variable("RUNTIME_CLOUD_SECRETS")?);
        let client = self.clients.secrets_manager();
        Ok(SecretsManagerBroker { client, names, ids: Arc::new(RandomIds) })
    }

    /// Where jobs run: a function, and tasks where the stack has any.
    fn places(&self) -> Result<Places, DoorError> {
        let role = JobRole {
            sts: self.clients.sts(),
            role: variable("RUNTIME_CLOUD_JOB_ROLE")?,
            identities: listed("RUNTIME_CLOUD_IDENTITY_ROLES"),
            bucket: variable("RUNTIME_CLOUD_JOBS_BUCKET")?,
            secrets: SecretNames(variable("RUNTIME_CLOUD_SECRETS")?),
            secrets_arn: variable("RUNTIME_CLOUD_SECRETS_ARN")?,
            clock: Arc::new(SystemClock),
        };
        let function = LambdaPlace {
            lambda: self.clients.lambda(),
            function: variable("RUNTIME_CLOUD_RUNNER")?,
            by_tenant: optional("RUNTIME_CLOUD_RUNNER_BY_TENANT").as_deref() == Some("yes"),
            role: role.clone(),
        };
        let task = match optional("RUNTIME_CLOUD_TASK") {
            None => None,
            Some(definition) => Some(Arc::new(TaskPlace {
                ecs: self.clients.ecs(),
                kms: self.clients.kms(),
                key: variable("RUNTIME_CLOUD_KEY")?,
                cluster: variable("RUNTIME_CLOUD_CLUSTER")?,
                definition,
                subnets: listed("RUNTIME_CLOUD_TASK_SUBNETS"),
                security_groups: listed("RUNTIME_CLOUD_TASK_SECURITY_GROUPS"),
                public_address: optional("RUNTIME_CLOUD_TASK_PUBLIC_ADDRESS").as_deref() == Some("yes"),
                role,
            }) as Arc<dyn RunnerPlace>),
        };
        Ok(Places { function: Arc::new(function), task, choice: choice()? })
    }

    /// Runs that happen elsewhere.
    pub async fn runner(&self) -> Result<RemoteRunner, DoorError> {
        let manifest = Manifest::read(&self.tools()?, &variable("RUNTIME_CLOUD_TOOLS")?).await?;
        let jobs: Arc<dyn Receipts> = Arc::new(self.jobs()?);
        Ok(RemoteRunner {
            files: jobs,
            places: self.places()?,
            secrets: Arc::new(self.secrets()?),
            clock: Arc::new(SystemClock),
            tools: manifest.digests(),
            scratch: std::env::temp_dir().join("runtime-cloud-scratch"),
            version: format!("runtime-cloud {} on Lambda", env!("CARGO_PKG_VERSION")),
        })
    }
}

/// The queue of what the jobs' bucket tells.
pub const RUNNER_FINISHED: &str = "RunnerFinished";

/// The parts of a variable that holds a list.
fn listed(name: &str) -> Vec<String> {
    let parts = optional(name).unwrap_or_default();
    parts.split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect()
}

/// How an apply's place is chosen.
fn choice() -> Result<Choice, DoorError> {
    const NAME: &str = "RUNTIME_CLOUD_PLACE";
    match optional(NAME).as_deref() {
        None | Some("auto") => {
            let known = SHORT_TYPES.iter().map(|t| (*t).to_owned());
            Ok(Choice::Auto(known.chain(listed("RUNTIME_CLOUD_SHORT_TYPES")).collect()))
        }
        Some("function") => Ok(Choice::Function),
        Some("task") => Ok(Choice::Task),
        Some(_) => Err(DoorError::Value { name: NAME, allowed: "auto, function or task" }),
    }
}

/// The settings of a stack.
pub fn settings() -> Result<Arc<Settings>, DoorError> {
    let hours = optional("RUNTIME_CLOUD_APPROVAL_HOURS").and_then(|h| h.parse().ok());
    let usual = Settings::default();
    Ok(Arc::new(Settings { approval_expiry: hours.map_or(usual.approval_expiry, TimeDelta::hours), ..usual }))
}

/// Makes the connections of who plans or applies, all at once, so that no message waits for one.
async fn meet(account: &Account) -> Result<(), DoorError> {
    let (receipts, jobs, artifacts) =
        (account.receipts()?, account.jobs()?, account.artifacts("artifacts/")?);
    let clients = &account.clients;
    let (receipts, jobs, artifacts, ..) = tokio::join!(
        receipts.warm(""),
        jobs.warm("jobs/"),
        artifacts.warm(),
        clients.meet_sqs(),
        clients.meet_lambda(),
        clients.meet_sts(),
        clients.meet_ssm(),
        clients.meet_secrets_manager(),
    );
    Ok(receipts.and(jobs).and(artifacts)?)
}

/// Plans.
pub async fn planner(account: &Account) -> Result<Arc<dyn Consumer>, DoorError> {
    let secrets = Arc::new(account.secrets()?);
    meet(account).await?;
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
    meet(account).await?;
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
    let (jobs, rows) = (Arc::new(account.jobs()?), account.artifacts("rows/")?);
    let (met, kept, ()) = tokio::join!(jobs.warm("jobs/"), rows.warm(), account.clients.meet_sqs());
    met.and(kept)?;
    let runner = Arc::new(RemoteStopper { files: jobs });
    let queue = Arc::new(account.queue()?);
    Ok(RunWatch { store: account.store().await?, runner, queue, settings: settings()? })
}

/// The handlers of inbound events.
pub async fn handlers(account: &Account) -> Result<Vec<Arc<dyn Consumer>>, DoorError> {
    let (store, settings) = (account.store().await?, settings()?);
    let rows = account.artifacts("rows/")?;
    let (rows, ()) = tokio::join!(rows.warm(), account.clients.meet_sqs());
    rows?;
    Ok(vec![
        consumer(handlers::ProvisionPromotion { store: store.clone(), settings: settings.clone() }).into(),
        consumer(handlers::ProvisionBaseline { store: store.clone(), settings }).into(),
        consumer(handlers::ApplyApproval { store }).into(),
    ])
}
