//! What an account does in its own way, behind the API: configuration, and a look at what the stack rests on.

use application::queries::{self, Check};
use async_trait::async_trait;
use aws::{ParameterStore, S3Receipts, SqsQueue, Tables};
use domain::Kind;
use events::TenantId;
use http_api::{EventLog, LoggedEvent, Operations, Problem};
use ports::{PortError, Store};

/// The kinds of rows that a stack has tables for.
pub const KINDS: [Kind; 4] =
    [Kind::DeploymentSpecification, Kind::ProvisioningRun, Kind::Environment, Kind::EnvironmentSlot];

/// An account's own operations.
pub struct AccountOperations {
    /// Configuration values.
    pub config: ParameterStore,
    /// The store.
    pub store: Store,
    /// Queues.
    pub queue: SqsQueue,
    /// The tables.
    pub tables: Tables,
    /// Their client.
    pub dynamodb: aws::DynamoDb,
    /// Receipts.
    pub receipts: S3Receipts,
    /// The bucket of artifacts and long rows.
    pub artifacts_bucket: String,
    /// The bus.
    pub bus: String,
}

impl AccountOperations {
    async fn tables(&self) -> Result<String, String> {
        let mut tables: Vec<(String, &str)> = KINDS.map(|kind| (self.tables.of(kind), "key")).into();
        tables.extend([(self.tables.counters(), "counter"), (self.tables.claims(), "name")]);
        tables.push((self.queue.counts_table.clone(), "id"));
        let mut silent = vec![];
        for (table, key) in &tables {
            if let Err(e) = aws::answers(&self.dynamodb, table, key).await {
                silent.push(e.chain());
            }
        }
        if silent.is_empty() { Ok(format!("{} tables answer", tables.len())) } else { Err(silent.join("; ")) }
    }

    async fn versions(&self) -> Result<String, String> {
        let mut without = vec![];
        for bucket in [&self.receipts.bucket, &self.artifacts_bucket] {
            if !aws::is_versioned(&self.receipts.client, bucket).await.map_err(|e| e.chain())? {
                without.push(bucket.as_str());
            }
        }
        if without.is_empty() {
            return Ok("receipts and artifacts keep their versions".to_owned());
        }
        Err(format!(
            "{} keeps no versions, so what is overwritten or deleted is gone; enable its versioning again",
            without.join(" and ")
        ))
    }

    async fn lock(&self) -> Result<String, String> {
        let bucket = &self.receipts.bucket;
        if aws::is_locked(&self.receipts.client, bucket).await.map_err(|e| e.chain())? {
            return Ok("receipts can't be changed or deleted while their time lasts".to_owned());
        }
        Err(format!(
            "{bucket} has no Object Lock with a default retention, so receipts can be deleted; enable it as template.yaml does"
        ))
    }
}

#[async_trait]
impl Operations for AccountOperations {
    async fn set_config(&self, tenant: &TenantId, reference: &str, value: &str) -> Result<i64, PortError> {
        self.config.set(tenant, reference, value).await
    }

    async fn backup(&self) -> Result<String, Problem> {
        let detail = format!(
            "no backup is made here: the tables {}* can be restored to any second of the last 35 days, and the buckets keep their versions; \
             use DynamoDB's point-in-time recovery",
            self.tables.prefix
        );
        Err(Problem::new(501, "no-backup", detail))
    }

    async fn doctor(&self, tenant: &TenantId) -> Vec<Check> {
        let mut checks = vec![
            Check::of("tables", self.tables().await),
            Check::of("versions", self.versions().await),
            Check::of("receipts' lock", self.lock().await),
        ];
        checks.extend(queries::checks(&self.store, &self.queue, tenant).await);
        checks
    }
}

#[async_trait]
impl EventLog for AccountOperations {
    async fn log(&self, _: i64, _: &TenantId, _: u32) -> Result<Vec<LoggedEvent>, Problem> {
        let detail = format!(
            "events aren't listed here; make a rule of your own on bus {} to receive them, or replay those of its archive",
            self.bus
        );
        Err(Problem::new(501, "no-event-log", detail))
    }
}
