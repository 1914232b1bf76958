//! Jobs on a runner function. It is invoked with credentials made for that one job: they reach its own folder, the
//! secrets that it names, and nothing else, and they die with it.

use async_trait::async_trait;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use chrono::{DateTime, TimeDelta, Utc};
use ports::runner_place::{JobClaim, JobName, Order, RunnerPlace};
use ports::{Clock, PortError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::fault::fault;
use crate::secrets_manager::SecretNames;

/// The place.
#[derive(Clone)]
pub struct LambdaPlace {
    /// Lambda.
    pub lambda: aws_sdk_lambda::Client,
    /// STS.
    pub sts: aws_sdk_sts::Client,
    /// The runner function.
    pub function: String,
    /// The role that each job's credentials are of, narrowed for it.
    pub job_role: String,
    /// The bucket of the jobs.
    pub jobs_bucket: String,
    /// Names of secrets.
    pub secrets: SecretNames,
    /// The partition, region and account of secrets: `arn:aws:secretsmanager:eu-central-1:123456789012`.
    pub secrets_arn: String,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What the runner function is invoked with. It is never logged.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobInvocation {
    /// The job.
    pub name: JobName,
    /// What it may use.
    pub credentials: JobCredentials,
}

/// Credentials of one job.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobCredentials {
    /// The key's id.
    pub access_key_id: String,
    /// The key.
    pub secret_access_key: String,
    /// The session.
    pub session_token: String,
    /// When they end.
    pub expires_at: DateTime<Utc>,
}

/// Clocks of two machines differ by less.
const SKEW: TimeDelta = TimeDelta::seconds(30);
/// STS makes none that live shorter, and none that live longer where roles are chained.
const SHORTEST: i64 = 900;
const LONGEST: i64 = 3600;

impl LambdaPlace {
    /// What a job may do, however much its role may.
    fn policy(&self, order: &Order) -> String {
        let bucket = format!("arn:aws:s3:::{}", self.jobs_bucket);
        let folder = order.name.folder();
        let tenant = &order.name.tenant;
        let secret = |name: String| format!("{}:secret:{name}-??????", self.secrets_arn);
        let mut secrets: Vec<String> =
            order.secrets.iter().map(|r| secret(self.secrets.value(tenant, r))).collect();
        secrets.push(secret(self.secrets.passphrase(tenant, &order.name.environment)));
        serde_json::json!({
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [format!("{bucket}/{folder}/in/*"), format!("{bucket}/{folder}/out/*")]},
                {"Effect": "Allow", "Action": ["s3:PutObject"], "Resource": [format!("{bucket}/{folder}/out/*")]},
                {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket], "Condition": {"StringLike": {"s3:prefix": [format!("{folder}/*")]}}},
                {"Effect": "Allow", "Action": ["secretsmanager:GetSecretValue"], "Resource": secrets},
                {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": ["*"],
                 "Condition": {"StringLike": {"kms:ViaService": ["s3.*.amazonaws.com", "secretsmanager.*.amazonaws.com"]}}}
            ]
        })
        .to_string()
    }

    async fn credentials(&self, order: &Order) -> Result<JobCredentials, PortError> {
        let left = (order.deadline - self.clock.now()).num_seconds().clamp(SHORTEST, LONGEST);
        let tag = |key: &str, value: &str| {
            aws_sdk_sts::types::Tag::builder().key(key).value(crate::names::safe_name(value)).build()
        };
        let broken = |e| PortError::broken_by("a job's tags can't be written", "report this", e);
        let made = self
            .sts
            .assume_role()
            .role_arn(&self.job_role)
            .role_session_name(format!(
                "{}-{}",
                order.name.run.to_string().replace('-', ""),
                order.name.phase.as_str()
            ))
            .duration_seconds(i32::try_from(left).unwrap_or(i32::MAX))
            .policy(self.policy(order))
            .tags(tag("tenant", order.name.tenant.as_str()).map_err(broken)?)
            .tags(tag("environment", order.name.environment.as_str()).map_err(broken)?)
            .tags(tag("run", &order.name.run.to_string()).map_err(broken)?)
            .send()
            .await
            .map_err(|e| fault("the role of the jobs", e))?;
        let made = made
            .credentials
            .ok_or_else(|| PortError::unavailable("the role of the jobs", "it gave no credentials"))?;
        let expires_at = DateTime::from_timestamp(made.expiration.secs(), 0);
        Ok(JobCredentials {
            access_key_id: made.access_key_id,
            secret_access_key: made.secret_access_key,
            session_token: made.session_token,
            expires_at: expires_at.unwrap_or_else(|| self.clock.now() + TimeDelta::seconds(left)),
        })
    }
}

#[async_trait]
impl RunnerPlace for LambdaPlace {
    async fn start(&self, order: &Order) -> Result<(), PortError> {
        let invocation =
            JobInvocation { name: order.name.clone(), credentials: self.credentials(order).await? };
        let payload = serde_json::to_vec(&invocation)
            .map_err(|e| PortError::broken_by("an invocation can't be written", "report this", e))?;
        let sent = self
            .lambda
            .invoke()
            .function_name(&self.function)
            .invocation_type(InvocationType::Event)
            .payload(Blob::new(payload))
            .send()
            .await;
        // The payload stays out of every error.
        sent.map_err(|e| fault(&format!("function {}", self.function), e))?;
        Ok(())
    }

    async fn gone(&self, claim: &JobClaim, now: DateTime<Utc>) -> Result<Option<String>, PortError> {
        let ended = now > claim.ends_by + SKEW;
        Ok(ended.then(|| format!("its function and its credentials ended at {}", claim.ends_by)))
    }
}
