//! The ports on AWS. This crate alone names the SDK.

mod connect;
mod dynamo_item;
mod dynamo_rows;
mod dynamo_write;
mod event_bridge_bus;
mod fault;
mod health;
mod lambda_place;
mod names;
mod parameters;
mod s3_artifacts;
mod s3_receipts;
mod secrets_manager;
mod sqs_message;
mod sqs_queue;
mod stream_letters;

pub use aws_config::SdkConfig;
pub use aws_sdk_dynamodb::Client as DynamoDb;
pub use connect::{connect, connect_as, dynamodb, event_bridge, lambda, s3, secrets_manager, sqs, ssm, sts};
pub use dynamo_rows::{DynamoRows, Tables};
pub use event_bridge_bus::{EventBridgeBus, event_of};
pub use health::{answers, is_locked, is_versioned};
pub use lambda_place::{JobCredentials, JobInvocation, LambdaPlace};
pub use names::safe_name;
pub use parameters::ParameterStore;
pub use s3_artifacts::S3Artifacts;
pub use s3_receipts::S3Receipts;
pub use secrets_manager::{SecretNames, SecretsManagerBroker};
pub use sqs_message::SqsRecord;
pub use sqs_queue::{SqsQueue, SqsQueues};
pub use stream_letters::{StreamRecord, letters_of};
