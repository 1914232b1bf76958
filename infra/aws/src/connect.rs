//! Connections. Every client takes its limits from here: how long one call may take, and how often it is tried again.
//! `AWS_ENDPOINT_URL` alone points all of them at an emulator.

use std::sync::OnceLock;
use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, SdkConfig};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

use crate::job_role::JobCredentials;

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
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .timeout_config(timeouts)
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(ATTEMPTS)
                .with_initial_backoff(BACKOFF)
                .with_max_backoff(LONGEST_BACKOFF),
        );
    // A function's credentials stand in its environment, where the usual search looks first; the search itself makes
    // clients that no function needs.
    if std::env::var_os("AWS_ACCESS_KEY_ID").is_some_and(|id| !id.is_empty()) {
        loader = loader.credentials_provider(EnvironmentVariableCredentialsProvider::new());
    }
    loader.load().await
}

/// The clients of an account. Each is made when it is first asked for, and once: to make one costs more than a call.
#[derive(Clone)]
pub struct Clients {
    config: SdkConfig,
    dynamodb: OnceLock<aws_sdk_dynamodb::Client>,
    ecs: OnceLock<aws_sdk_ecs::Client>,
    event_bridge: OnceLock<aws_sdk_eventbridge::Client>,
    kms: OnceLock<aws_sdk_kms::Client>,
    lambda: OnceLock<aws_sdk_lambda::Client>,
    s3: OnceLock<aws_sdk_s3::Client>,
    secrets_manager: OnceLock<aws_sdk_secretsmanager::Client>,
    sqs: OnceLock<aws_sdk_sqs::Client>,
    ssm: OnceLock<aws_sdk_ssm::Client>,
    sts: OnceLock<aws_sdk_sts::Client>,
}

impl Clients {
    /// Of a configuration.
    pub const fn of(config: SdkConfig) -> Clients {
        Clients {
            config,
            dynamodb: OnceLock::new(),
            ecs: OnceLock::new(),
            event_bridge: OnceLock::new(),
            kms: OnceLock::new(),
            lambda: OnceLock::new(),
            s3: OnceLock::new(),
            secrets_manager: OnceLock::new(),
            sqs: OnceLock::new(),
            ssm: OnceLock::new(),
            sts: OnceLock::new(),
        }
    }

    /// Of the account that this function is in, under its name, by which AWS's logs tell who has called.
    pub async fn of_function(name: Option<&str>) -> Clients {
        let config = connect().await;
        let name = name.and_then(|name| AppName::new(name.to_owned()).ok());
        let mut named = config.to_builder();
        named.set_app_name(name.or_else(|| config.app_name().cloned()));
        Clients::of(named.build())
    }

    /// The same with other credentials: those of one job.
    pub fn of_job(&self, job: &JobCredentials) -> Clients {
        let credentials = Credentials::new(
            &job.access_key_id,
            &job.secret_access_key,
            Some(job.session_token.clone()),
            Some(job.expires_at.into()),
            "job",
        );
        let provider = SharedCredentialsProvider::new(credentials);
        Clients::of(self.config.to_builder().credentials_provider(provider).build())
    }

    /// DynamoDB.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        self.dynamodb.get_or_init(|| aws_sdk_dynamodb::Client::new(&self.config)).clone()
    }

    /// ECS.
    pub fn ecs(&self) -> aws_sdk_ecs::Client {
        self.ecs.get_or_init(|| aws_sdk_ecs::Client::new(&self.config)).clone()
    }

    /// EventBridge.
    pub fn event_bridge(&self) -> aws_sdk_eventbridge::Client {
        self.event_bridge.get_or_init(|| aws_sdk_eventbridge::Client::new(&self.config)).clone()
    }

    /// KMS.
    pub fn kms(&self) -> aws_sdk_kms::Client {
        self.kms.get_or_init(|| aws_sdk_kms::Client::new(&self.config)).clone()
    }

    /// Lambda.
    pub fn lambda(&self) -> aws_sdk_lambda::Client {
        self.lambda.get_or_init(|| aws_sdk_lambda::Client::new(&self.config)).clone()
    }

    /// S3. An emulator has no name for each bucket: there the bucket stands in the path.
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let make = || {
            let emulated = self.config.endpoint_url().is_some();
            let config = aws_sdk_s3::config::Builder::from(&self.config).force_path_style(emulated);
            aws_sdk_s3::Client::from_conf(config.build())
        };
        self.s3.get_or_init(make).clone()
    }

    /// Secrets Manager.
    pub fn secrets_manager(&self) -> aws_sdk_secretsmanager::Client {
        self.secrets_manager.get_or_init(|| aws_sdk_secretsmanager::Client::new(&self.config)).clone()
    }

    /// SQS.
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        self.sqs.get_or_init(|| aws_sdk_sqs::Client::new(&self.config)).clone()
    }

    /// Systems Manager's Parameter Store.
    pub fn ssm(&self) -> aws_sdk_ssm::Client {
        self.ssm.get_or_init(|| aws_sdk_ssm::Client::new(&self.config)).clone()
    }

    /// STS.
    pub fn sts(&self) -> aws_sdk_sts::Client {
        self.sts.get_or_init(|| aws_sdk_sts::Client::new(&self.config)).clone()
    }
}
