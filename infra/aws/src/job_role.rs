//! Credentials of one job: they reach its own folder, the secrets that it names, the identity that its environment
//! names, and nothing else; and they are over soon after it.

use std::sync::Arc;

use aws_sdk_sts::error::ProvideErrorMetadata;
use chrono::{DateTime, TimeDelta, Utc};
use domain::identity::Identity;
use ports::runner_place::{JobName, Order};
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
    /// ARNs of the roles that environments may name as their identity: no other one is ever assumed for a program.
    pub identities: Vec<String>,
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

/// Characters that STS takes.
const LONGEST_POLICY: usize = 2048;
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
        let role = match identity {
            Identity::Role(arn) => arn.to_owned(),
            Identity::OwnRole(name) => {
                let account = self.role.split(":role/").next().unwrap_or_default();
                format!("{account}:role/{name}")
            }
            Identity::Kubeconfig(_) => return Ok(None),
        };
        // The controller may assume more than that, its jobs' own role first of all.
        if role == self.role || !self.identities.contains(&role) {
            let what = format!(
                "environment {environment} names identity {role}, which this stack doesn't give to programs"
            );
            return Err(PortError::broken(
                what,
                "name it in the stack's parameter IdentityRoles, then plan again",
            ));
        }
        Ok(Some(role))
    }

    /// What a job may do, however much its role may. Where its secrets are too many to be named, those of its tenant.
    fn policy(&self, order: &Order) -> String {
        let named = self.policy_of(order, false);
        if named.len() <= LONGEST_POLICY { named } else { self.policy_of(order, true) }
    }

    fn policy_of(&self, order: &Order, of_tenant: bool) -> String {
        let partition = self.role.split(':').nth(1).unwrap_or("aws");
        let bucket = format!("arn:{partition}:s3:::{}", self.bucket);
        // Its run is in no other folder, so this is its own, however long the ids before are.
        let JobName { run, phase, start, .. } = &order.name;
        let folder = format!("jobs/*/{run}/{}-{start}", phase.as_str());
        let tenant = &order.name.tenant;
        let secret = |name: String| format!("{}:secret:{name}-??????", self.secrets_arn);
        let mut secrets: Vec<String> = match of_tenant {
            true => vec![format!("{}:secret:{}*", self.secrets_arn, self.secrets.value(tenant, ""))],
            false => order.secrets.iter().map(|r| secret(self.secrets.value(tenant, r))).collect(),
        };
        secrets.push(secret(self.secrets.passphrase(tenant, &order.name.environment)));
        serde_json::json!({
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [format!("{bucket}/{folder}/*")]},
                // What is there is never replaced: neither a claim nor a result.
                {"Effect": "Allow", "Action": ["s3:PutObject"], "Resource": [format!("{bucket}/{folder}/out/*")],
                 "Condition": {"Null": {"s3:if-none-match": "false"}}},
                {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket], "Condition": {"StringLike": {"s3:prefix": [format!("{folder}/*")]}}},
                {"Effect": "Allow", "Action": ["secretsmanager:GetSecretValue"], "Resource": secrets},
                {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": ["*"],
                 "Condition": {"StringLike": {"kms:ViaService": ["s3.*.amazonaws.com*", "secretsmanager.*.amazonaws.com*"]}}}
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
        let own = policy.is_some();
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
            .await;
        let made = made.map_err(|e| {
            // The stack's own role is the operator's to mend, and work waits for it; an identity is somebody else's.
            if !own && e.as_service_error().and_then(|e| e.code()) == Some("AccessDenied") {
                let hint =
                    "let it trust the stack's planner and applier, with sts:AssumeRole and sts:TagSession";
                return PortError::broken(format!("{what} may not be assumed"), hint);
            }
            fault(&what, e)
        })?;
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

#[cfg(test)]
mod tests {
    use events::{EnvironmentId, ProvisioningRunId, TenantId};
    use ports::runner::Phase;
    use uuid::Uuid;

    use super::*;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> DateTime<Utc> {
            DateTime::UNIX_EPOCH
        }
    }

    fn role(identities: &[&str]) -> JobRole {
        let nowhere = aws_sdk_sts::Config::builder().behavior_version_latest().build();
        JobRole {
            sts: aws_sdk_sts::Client::from_conf(nowhere),
            role: "arn:aws:iam::123456789012:role/factory-job".to_owned(),
            identities: identities.iter().map(|i| (*i).to_owned()).collect(),
            bucket: "factory-jobs-123456789012-eu-central-1".to_owned(),
            secrets: SecretNames("factory".to_owned()),
            secrets_arn: "arn:aws:secretsmanager:eu-central-1:123456789012".to_owned(),
            clock: Arc::new(Still),
        }
    }

    fn order(identity: Option<&str>, secrets: usize) -> Order {
        Order {
            name: JobName {
                tenant: TenantId::new("acme").unwrap(),
                environment: EnvironmentId::new("staging").unwrap(),
                run: ProvisioningRunId(Uuid::from_u128(7)),
                phase: Phase::Apply,
                start: 1,
            },
            secrets: (0..secrets).map(|n| format!("shop/database-{n:02}")).collect(),
            identity: identity.map(str::to_owned),
            deadline: DateTime::UNIX_EPOCH,
            asked: 0,
        }
    }

    #[test]
    fn only_a_role_that_the_stack_gives_to_programs_is_an_identity() {
        let given = "arn:aws:iam::123456789012:role/shop";
        let of = |identities: &[&str], identity| role(identities).identity(&order(Some(identity), 0));
        assert_eq!(of(&[given], "roles/shop").unwrap().as_deref(), Some(given));
        assert_eq!(of(&[given], given).unwrap().as_deref(), Some(given));
        assert_eq!(of(&[], "kubeconfig/shop").unwrap(), None);
        for other in ["roles/other", "arn:aws:iam::999999999999:role/shop", "roles/factory-job", "shop"] {
            let refused = of(&[given], other).unwrap_err();
            assert!(!refused.is_temporary(), "{other}");
        }
        // Not even where somebody has named it.
        assert!(of(&["arn:aws:iam::123456789012:role/factory-job"], "roles/factory-job").is_err());
    }

    #[test]
    fn a_policy_fits_whatever_the_number_of_secrets_and_never_leaves_the_tenant() {
        let few = role(&[]).policy(&order(None, 3));
        assert!(
            few.contains("values/acme/shop.2Fdatabase-02-??????") && !few.contains("values/acme/*"),
            "{few}"
        );
        for name in ["x".repeat(128), "\u{6771}".repeat(33)] {
            let mut long = order(None, 3);
            long.name.tenant = TenantId::new(name.clone()).unwrap();
            long.name.environment = EnvironmentId::new(name).unwrap();
            let policy = role(&[]).policy(&long);
            assert!(policy.len() <= LONGEST_POLICY, "{}", policy.len());
        }
        for secrets in [0, 3, 12, 200] {
            let policy = role(&[]).policy(&order(None, secrets));
            assert!(policy.len() <= LONGEST_POLICY, "{secrets}: {}", policy.len());
            assert!(policy.contains("factory/passphrases/acme/staging-??????"), "{policy}");
        }
        let many = role(&[]).policy(&order(None, 200));
        assert!(many.contains(":secret:factory/values/acme/*"), "{many}");
    }
}
