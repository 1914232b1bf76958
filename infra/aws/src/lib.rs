//! The ports on AWS. This crate alone names the SDK.

mod connect;
mod dynamo_item;
mod dynamo_rows;
mod dynamo_write;
mod event_bridge_bus;
mod fault;
mod health;
mod job_role;
mod lambda_place;
mod names;
mod parameters;
mod s3_artifacts;
mod s3_receipts;
mod secrets_manager;
mod sqs_dead_letters;
mod sqs_message;
mod sqs_queue;
mod stream_letters;
mod task_place;
mod warm;

pub use aws_sdk_dynamodb::Client as DynamoDb;
pub use connect::{Clients, connect};
pub use dynamo_rows::{DynamoRows, Tables};
pub use event_bridge_bus::{EventBridgeBus, event_of};
pub use health::{answers, is_locked, is_versioned};
pub use job_role::{JobCredentials, JobKeys, JobRole};
pub use lambda_place::{JobInvocation, LambdaPlace};
pub use names::safe_name;
pub use parameters::ParameterStore;
pub use s3_artifacts::S3Artifacts;
pub use s3_receipts::S3Receipts;
pub use secrets_manager::{SecretNames, SecretsManagerBroker};
pub use sqs_message::SqsRecord;
pub use sqs_queue::{SqsQueue, SqsQueues};
pub use stream_letters::{StreamRecord, letters_of};
pub use task_place::{CONTAINER, JOB_VARIABLE, TaskJob, TaskPlace};
