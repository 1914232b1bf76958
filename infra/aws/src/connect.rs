//! Connections. Every client takes its limits from here: how long one call may take, and how often it is tried again.
//! `AWS_ENDPOINT_URL` alone points all of them at an emulator.

use std::time::Duration;

use crate::job_role::JobCredentials;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, SdkConfig};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

/// To connect.
const CONNECT: Duration = Duration::from_secs(2);
/// One attempt of a call.
const ATTEMPT: Duration = Duration::from_secs(6);
/// A call with all of its attempts: far below what a function has left when it begins.
const CALL: Duration = Duration::from_secs(20);
/// Attempts of a call that may be repeated.
const ATTEMPTS: u32 = 4;

/// Between the first two attempts, at most; doubling.
const BACKOFF: Duration = Duration::from_millis(100);
/// Between any two.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);

/// Reads the region, the credentials and the endpoint from where AWS's own tools do.
pub async fn connect() -> SdkConfig {
    let http =
        aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(ATTEMPT)
        .operation_timeout(CALL)
        .build();
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .timeout_config(timeouts)
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(ATTEMPTS)
                .with_initial_backoff(BACKOFF)
                .with_max_backoff(LONGEST_BACKOFF),
        )
        .load()
        .await
}

/// The same under the name of a function, by which AWS's logs tell who has called.
pub fn named(config: &SdkConfig, function: Option<&str>) -> SdkConfig {
    let name = function.and_then(|name| AppName::new(name.to_owned()).ok());
    let mut named = config.to_builder();
    named.set_app_name(name.or_else(|| config.app_name().cloned()));
    named.build()
}

/// The same with other credentials: those of one job.
pub fn connect_as(config: &SdkConfig, job: &JobCredentials) -> SdkConfig {
    let credentials = Credentials::new(
        &job.access_key_id,
        &job.secret_access_key,
        Some(job.session_token.clone()),
        Some(job.expires_at.into()),
        "job",
    );
    config.to_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build()
}

/// DynamoDB.
pub fn dynamodb(config: &SdkConfig) -> aws_sdk_dynamodb::Client {
    aws_sdk_dynamodb::Client::new(config)
}

/// SQS.
pub fn sqs(config: &SdkConfig) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::new(config)
}

/// EventBridge.
pub fn event_bridge(config: &SdkConfig) -> aws_sdk_eventbridge::Client {
    aws_sdk_eventbridge::Client::new(config)
}

/// S3. An emulator has no name for each bucket: there the bucket stands in the path.
pub fn s3(config: &SdkConfig) -> aws_sdk_s3::Client {
    let emulated = config.endpoint_url().is_some();
    aws_sdk_s3::Client::from_conf(
        aws_sdk_s3::config::Builder::from(config).force_path_style(emulated).build(),
    )
}

/// Secrets Manager.
pub fn secrets_manager(config: &SdkConfig) -> aws_sdk_secretsmanager::Client {
    aws_sdk_secretsmanager::Client::new(config)
}

/// Systems Manager's Parameter Store.
pub fn ssm(config: &SdkConfig) -> aws_sdk_ssm::Client {
    aws_sdk_ssm::Client::new(config)
}

/// Lambda.
pub fn lambda(config: &SdkConfig) -> aws_sdk_lambda::Client {
    aws_sdk_lambda::Client::new(config)
}

/// STS.
pub fn sts(config: &SdkConfig) -> aws_sdk_sts::Client {
    aws_sdk_sts::Client::new(config)
}

/// ECS.
pub fn ecs(config: &SdkConfig) -> aws_sdk_ecs::Client {
    aws_sdk_ecs::Client::new(config)
}

/// KMS.
pub fn kms(config: &SdkConfig) -> aws_sdk_kms::Client {
    aws_sdk_kms::Client::new(config)
}
