//! An account of a test's own in an emulator: names of its own for everything.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contract::CountedIds;
use domain::{Digest, Kind};
use emulator::Emulator;
use events::Envelope;
use ports::Queue;
use runtime_cloud_aws::{
    Clients, DynamoRows, EventBridgeBus, ParameterStore, S3Artifacts, S3Receipts, SecretNames,
    SecretsManagerBroker, SqsQueue, SqsQueues, Tables,
};
use uuid::Uuid;

use super::stream_letters::StreamLetters;
use super::unwrapped::Unwrapped;

static ACCOUNTS: AtomicU32 = AtomicU32::new(0);

/// The index of what somebody has to look at again: its name, and the attributes that it is of.
const LIVING: (&str, &str, &str) = ("living", "living", "key");

/// Clients of an endpoint, and the names of a test.
#[derive(Clone)]
pub struct Account {
    config: aws_config::SdkConfig,
    clients: Clients,
    prefix: String,
    queue_urls: String,
    seen: Arc<Mutex<Vec<Envelope>>>,
}

/// Clients of an endpoint.
async fn config(url: &str) -> aws_config::SdkConfig {
    let credentials = aws_sdk_s3::config::Credentials::new("test", "test", None, None, "test");
    runtime_cloud_aws::connect()
        .await
        .into_builder()
        .endpoint_url(url)
        .region(aws_config::Region::new("us-east-1"))
        .credentials_provider(aws_sdk_s3::config::SharedCredentialsProvider::new(credentials))
        .build()
}

/// A fresh account.
pub async fn connect(url: &str, emulator: &Emulator) -> Account {
    let number = ACCOUNTS.fetch_add(1, Ordering::Relaxed);
    let config = config(url).await;
    Account {
        clients: Clients::of(config.clone()),
        config,
        prefix: format!("t{}-{number}-", std::process::id()),
        queue_urls: emulator.queue_url_prefix(),
        seen: Arc::default(),
    }
}

impl Account {
    /// The same account by another way.
    pub async fn through(&self, url: &str) -> Account {
        let config = config(url).await;
        Account { clients: Clients::of(config.clone()), config, ..self.clone() }
    }

    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        self.clients.dynamodb()
    }

    pub fn s3(&self) -> aws_sdk_s3::Client {
        self.clients.s3()
    }

    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        self.clients.sqs()
    }

    /// What its names begin with.
    pub fn prefix(&self) -> String {
        self.prefix.clone()
    }

    pub fn tables(&self) -> Tables {
        Tables { prefix: self.prefix.clone() }
    }

    pub fn bucket(&self) -> String {
        format!("{}bucket", self.prefix)
    }

    pub fn artifacts(&self) -> S3Artifacts {
        S3Artifacts { client: self.s3(), bucket: self.bucket(), prefix: "artifacts/".to_owned() }
    }

    pub fn receipts(&self) -> S3Receipts {
        S3Receipts { client: self.s3(), bucket: self.bucket() }
    }

    pub fn rows(&self) -> DynamoRows {
        DynamoRows { client: self.dynamodb(), tables: self.tables(), bodies: Arc::new(self.artifacts()) }
    }

    pub fn bus(&self) -> EventBridgeBus {
        EventBridgeBus { client: self.clients.event_bridge(), bus: self.bus_name() }
    }

    fn bus_name(&self) -> String {
        format!("{}bus", self.prefix)
    }

    pub fn parameters(&self) -> ParameterStore {
        ParameterStore { client: self.clients.ssm(), prefix: self.prefix.clone() }
    }

    pub fn secrets(&self) -> SecretsManagerBroker {
        SecretsManagerBroker {
            client: self.clients.secrets_manager(),
            names: SecretNames(self.prefix.clone()),
            ids: Arc::new(runtime_ids()),
        }
    }

    fn queues(&self, fifo: &[&str], standard: &[&str]) -> SqsQueue {
        let all = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        SqsQueue {
            client: self.sqs(),
            counts: self.dynamodb(),
            counts_table: format!("{}Messages", self.prefix),
            queues: SqsQueues {
                url_prefix: format!("{}{}", self.queue_urls, self.prefix),
                fifo: all(fifo),
                standard: all(standard),
                unread: vec![],
            },
            clock: Arc::new(contract::HandClock::new()),
        }
    }

    pub fn queue(&self) -> SqsQueue {
        self.queues(&["Planner", "Applier"], &[])
    }

    /// Queues that rules of the bus fill: what comes out is the event.
    pub fn queue_of_rules(&self) -> Unwrapped {
        Unwrapped(self.queues(&[], &["TrackDeclared", "Audit"]))
    }

    pub fn letters(&self) -> StreamLetters {
        StreamLetters {
            tables: self.tables(),
            dynamodb: self.dynamodb(),
            streams: aws_sdk_dynamodbstreams::Client::new(&self.config),
            gone: Mutex::default(),
        }
    }

    pub async fn make_bucket(&self) {
        self.s3().create_bucket().bucket(self.bucket()).send().await.expect("a bucket is made");
    }

    pub async fn tamper(&self, digest: &Digest, bytes: &[u8]) {
        let body = aws_sdk_s3::primitives::ByteStream::from(bytes.to_vec());
        let key = format!("artifacts/{digest}");
        self.s3().put_object().bucket(self.bucket()).key(key).body(body).send().await.expect("it is changed");
    }

    pub async fn make_queues(&self, names: &[&str]) {
        self.make_counts().await;
        for name in names {
            for name in [format!("{}{name}.fifo", self.prefix), format!("{}{name}-dead.fifo", self.prefix)] {
                let fifo = aws_sdk_sqs::types::QueueAttributeName::FifoQueue;
                let made = self.sqs().create_queue().queue_name(name).attributes(fifo, "true").send().await;
                made.expect("a queue is made");
            }
        }
    }

    pub async fn make_bus(&self, queues: &[&str]) {
        self.make_counts().await;
        let bridge = self.clients.event_bridge();
        bridge.create_event_bus().name(self.bus_name()).send().await.expect("a bus is made");
        let declared =
            serde_json::json!({"detail-type": ["provisioning.specifications.v1.specification-declared"]});
        let all = serde_json::json!({"source": [{"prefix": "/"}]});
        let mut rules: Vec<(&str, String)> = queues.iter().map(|q| (*q, declared.to_string())).collect();
        rules.push(("arrived", all.to_string()));
        for (queue, pattern) in rules {
            let name = format!("{}{queue}", self.prefix);
            self.sqs().create_queue().queue_name(&name).send().await.expect("a queue is made");
            let rule = bridge.put_rule().name(&name).event_bus_name(self.bus_name()).event_pattern(pattern);
            rule.send().await.expect("a rule is made");
            let target = aws_sdk_eventbridge::types::Target::builder()
                .id(queue)
                .arn(format!("arn:aws:sqs:us-east-1:000000000000:{name}"))
                .build()
                .unwrap();
            let targets = bridge.put_targets().rule(&name).event_bus_name(self.bus_name()).targets(target);
            targets.send().await.expect("a target is set");
        }
    }

    /// Every event that has arrived; waits until no more come.
    pub async fn arrived(&self) -> Vec<Envelope> {
        let queue = Unwrapped(self.queues(&[], &["arrived"]));
        let mut idle = 0;
        while idle < 5 {
            match queue.receive("arrived", Duration::from_secs(60)).await.expect("the queue answers") {
                None => {
                    idle += 1;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Some(delivery) => {
                    idle = 0;
                    queue.done(&delivery).await.expect("the queue answers");
                    let event = serde_json::from_slice(&delivery.message.body).expect("an event");
                    self.seen.lock().unwrap().push(event);
                }
            }
        }
        self.seen.lock().unwrap().clone()
    }

    async fn make_counts(&self) {
        self.table("Messages", "id", &[]).await;
    }

    pub async fn make_tables(&self) {
        self.make_bucket().await;
        for kind in Kind::ALL {
            let indexes = [
                ("tenant", "tenant", "key"),
                ("newest", "tenant", "begun"),
                ("owner", "owner", "begun"),
                LIVING,
            ];
            self.table(kind.table(), "key", &indexes).await;
        }
        self.table("Counters", "counter", &[]).await;
        self.table("Claims", "name", &[]).await;
    }

    /// A table as template.yaml has it.
    async fn table(&self, name: &str, key: &str, indexes: &[(&str, &str, &str)]) {
        use aws_sdk_dynamodb::types::{
            AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
            ProjectionType, ScalarAttributeType, StreamSpecification, StreamViewType,
        };
        let element = |name: &str, kind: KeyType| {
            KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap()
        };
        let definition = |name: &str| {
            let text = ScalarAttributeType::S;
            AttributeDefinition::builder().attribute_name(name).attribute_type(text).build().unwrap()
        };
        let mut make = self
            .dynamodb()
            .create_table()
            .table_name(format!("{}{name}", self.prefix))
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(definition(key))
            .key_schema(element(key, KeyType::Hash));
        let of = indexes.iter().flat_map(|(_, hash, range)| [*hash, *range]);
        let attributes: BTreeSet<&str> = of.filter(|name| *name != key).collect();
        for attribute in attributes {
            make = make.attribute_definitions(definition(attribute));
        }
        for (index, hash, range) in indexes {
            let projection = if *index == LIVING.0 {
                Projection::builder()
                    .projection_type(ProjectionType::Include)
                    .non_key_attributes("due")
                    .build()
            } else {
                Projection::builder().projection_type(ProjectionType::KeysOnly).build()
            };
            make = make.global_secondary_indexes(
                GlobalSecondaryIndex::builder()
                    .index_name(*index)
                    .key_schema(element(hash, KeyType::Hash))
                    .key_schema(element(range, KeyType::Range))
                    .projection(projection)
                    .build()
                    .unwrap(),
            );
        }
        if key == "key" {
            let stream = StreamSpecification::builder()
                .stream_enabled(true)
                .stream_view_type(StreamViewType::NewAndOldImages)
                .build()
                .unwrap();
            make = make.stream_specification(stream);
        }
        make.send().await.expect("a table is made");
    }
}

/// Ids that no other test makes.
fn runtime_ids() -> impl ports::Ids {
    struct Fresh(CountedIds);
    impl ports::Ids for Fresh {
        fn fresh(&self) -> Uuid {
            // Two accounts of one emulator never make the same.
            Uuid::new_v5(&Uuid::from_u128(std::process::id().into()), self.0.fresh().as_bytes())
        }
    }
    Fresh(CountedIds::default())
}
