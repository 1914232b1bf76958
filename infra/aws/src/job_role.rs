//! Credentials of one job: they reach its own folder, the secrets that it names, the identity that its environment
//! names, and nothing else; and they are over soon after it.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use domain::identity::Identity;
use ports::runner_place::Order;
use ports::{Clock, PortError};
use serde::{Deserialize, Serialize};

use crate::fault::fault;
use crate::secrets_manager::SecretNames;

/// Makes them.
#[derive(Clone)]
pub struct JobRole {
    /// STS.
    pub sts: aws_sdk_sts::Client,
    /// The ARN of the role that each job's credentials are of, narrowed for it.
    pub role: String,
    /// The bucket of the jobs.
    pub bucket: String,
    /// Names of secrets.
    pub secrets: SecretNames,
    /// The partition, region and account of secrets: `arn:aws:secretsmanager:eu-central-1:123456789012`.
    pub secrets_arn: String,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What a job works with. It is never logged.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobKeys {
    /// For its files and its secrets.
    pub own: JobCredentials,
    /// For what its program does: the role that its environment names.
    pub identity: Option<JobCredentials>,
}

impl JobKeys {
    /// When the last of them is over.
    pub fn end_at(&self) -> DateTime<Utc> {
        let identity = self.identity.as_ref().map(|i| i.expires_at);
        identity.map_or(self.own.expires_at, |at| at.max(self.own.expires_at))
    }
}

/// Credentials.
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

/// STS makes none that live shorter, and none that live longer where roles are chained.
const SHORTEST: i64 = 900;
const LONGEST: i64 = 3600;

impl JobRole {
    /// Makes what a job works with.
    pub async fn keys(&self, order: &Order) -> Result<JobKeys, PortError> {
        let identity = match self.identity(order)? {
            Some(role) => Some(self.assume(&role, None, order).await?),
            None => None,
        };
        Ok(JobKeys { own: self.assume(&self.role, Some(self.policy(order)), order).await?, identity })
    }

    /// The role that the environment names, by its ARN.
    fn identity(&self, order: &Order) -> Result<Option<String>, PortError> {
        let Some(reference) = &order.identity else { return Ok(None) };
        let environment = &order.name.environment;
        let identity = Identity::parse(reference)
            .map_err(|e| PortError::broken_by(format!("environment {environment}"), "then plan again", e))?;
        Ok(match identity {
            Identity::Role(arn) => Some(arn.to_owned()),
            Identity::OwnRole(name) => {
                let account = self.role.split(":role/").next().unwrap_or_default();
                Some(format!("{account}:role/{name}"))
            }
            Identity::Kubeconfig(_) => None,
        })
    }

    /// What a job may do, however much its role may.
    fn policy(&self, order: &Order) -> String {
        let bucket = format!("arn:aws:s3:::{}", self.bucket);
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

    async fn assume(
        &self,
        role: &str,
        policy: Option<String>,
        order: &Order,
    ) -> Result<JobCredentials, PortError> {
        let left = (order.deadline - self.clock.now()).num_seconds().clamp(SHORTEST, LONGEST);
        let tag = |key: &str, value: &str| {
            aws_sdk_sts::types::Tag::builder().key(key).value(crate::names::safe_name(value)).build()
        };
        let broken = |e| PortError::broken_by("a job's tags can't be written", "report this", e);
        let what = format!("role {role}");
        let made = self
            .sts
            .assume_role()
            .role_arn(role)
            .role_session_name(format!(
                "{}-{}",
                order.name.run.to_string().replace('-', ""),
                order.name.phase.as_str()
            ))
            .duration_seconds(i32::try_from(left).unwrap_or(i32::MAX))
            .set_policy(policy)
            .tags(tag("tenant", order.name.tenant.as_str()).map_err(broken)?)
            .tags(tag("environment", order.name.environment.as_str()).map_err(broken)?)
            .tags(tag("run", &order.name.run.to_string()).map_err(broken)?)
            .send()
            .await
            .map_err(|e| fault(&what, e))?;
        let made = made.credentials.ok_or_else(|| PortError::unavailable(&what, "it gave no credentials"))?;
        let expires_at = DateTime::from_timestamp(made.expiration.secs(), 0);
        Ok(JobCredentials {
            access_key_id: made.access_key_id,
            secret_access_key: made.secret_access_key,
            session_token: made.session_token,
            expires_at: expires_at.unwrap_or_else(|| self.clock.now() + TimeDelta::seconds(left)),
        })
    }
}
