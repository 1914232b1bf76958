//! Jobs in a container task: for applies that may take longer than a function has. What the task is started with can
//! be read by whoever may describe tasks, so its credentials stand there sealed, for that job alone.

use async_trait::async_trait;
use aws_sdk_ecs::error::ProvideErrorMetadata;
use aws_sdk_ecs::types::{
    AssignPublicIp, AwsVpcConfiguration, ContainerOverride, KeyValuePair, LaunchType, NetworkConfiguration,
    Tag, Task, TaskOverride,
};
use aws_sdk_kms::primitives::Blob;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use domain::deployment_specification::NAMESPACE;
use ports::PortError;
use ports::runner_place::{JobClaim, JobName, Order, RunnerPlace, SKEW};
use uuid::Uuid;

use crate::fault::fault;
use crate::job_role::{JobCredentials, JobKeys, JobRole};

/// The place.
#[derive(Clone)]
pub struct TaskPlace {
    /// ECS.
    pub ecs: aws_sdk_ecs::Client,
    /// KMS.
    pub kms: aws_sdk_kms::Client,
    /// The key that credentials are sealed with.
    pub key: String,
    /// The cluster.
    pub cluster: String,
    /// The task definition, with one container of the name [`CONTAINER`].
    pub definition: String,
    /// Where its address is.
    pub subnets: Vec<String>,
    /// What it may talk to; none: the network's own default.
    pub security_groups: Vec<String>,
    /// Whether it has an address that the internet sees: a network without a gateway of its own needs it.
    pub public_address: bool,
    /// Credentials.
    pub role: JobRole,
}

/// The container's name in the task definition.
pub const CONTAINER: &str = "runner";
/// Its variables: which job, and what it works with.
pub const JOB_VARIABLE: &str = "RUNTIME_CLOUD_JOB";
const OWN_VARIABLE: &str = "RUNTIME_CLOUD_JOB_KEYS";
const IDENTITY_VARIABLE: &str = "RUNTIME_CLOUD_JOB_IDENTITY";

/// Credentials of chained roles live for an hour; what a task has to do before and after Pulumi is in it.
const LONGEST: TimeDelta = TimeDelta::minutes(50);

/// What keys are sealed for: nobody opens them in another job's name.
fn context(name: &JobName) -> (String, String) {
    ("job".to_owned(), name.folder())
}

impl TaskPlace {
    async fn seal(&self, name: &JobName, credentials: &JobCredentials) -> Result<String, PortError> {
        let plain = serde_json::to_vec(credentials)
            .map_err(|e| PortError::broken_by("credentials can't be written", "report this", e))?;
        let (key, value) = context(name);
        let sealed = self
            .kms
            .encrypt()
            .key_id(&self.key)
            .encryption_context(key, value)
            .plaintext(Blob::new(plain))
            .send()
            .await
            .map_err(|e| fault("the stack's key", e))?;
        let sealed = sealed
            .ciphertext_blob
            .ok_or_else(|| PortError::unavailable("the stack's key", "it sealed nothing"))?;
        Ok(STANDARD.encode(sealed))
    }

    async fn variables(&self, order: &Order) -> Result<Vec<KeyValuePair>, PortError> {
        let keys = self.role.keys(order).await?;
        let name = serde_json::to_string(&order.name)
            .map_err(|e| PortError::broken_by("a job's name can't be written", "report this", e))?;
        let mut variables =
            vec![(JOB_VARIABLE, name), (OWN_VARIABLE, self.seal(&order.name, &keys.own).await?)];
        if let Some(identity) = &keys.identity {
            variables.push((IDENTITY_VARIABLE, self.seal(&order.name, identity).await?));
        }
        Ok(variables
            .into_iter()
            .map(|(name, value)| KeyValuePair::builder().name(name).value(value).build())
            .collect())
    }

    async fn described(&self, task: &str) -> Result<Option<Task>, PortError> {
        let what = format!("cluster {}", self.cluster);
        let found = self.ecs.describe_tasks().cluster(&self.cluster).tasks(task).send().await;
        Ok(found.map_err(|e| fault(&what, e))?.tasks.unwrap_or_default().into_iter().next())
    }
}

#[async_trait]
impl RunnerPlace for TaskPlace {
    fn longest(&self) -> TimeDelta {
        LONGEST
    }

    async fn start(&self, order: &Order) -> Result<(), PortError> {
        let broken = |e| PortError::broken_by("a task's network can't be written", "report this", e);
        let network = AwsVpcConfiguration::builder()
            .set_subnets(Some(self.subnets.clone()))
            .set_security_groups(Some(self.security_groups.clone()).filter(|g| !g.is_empty()))
            .assign_public_ip(if self.public_address {
                AssignPublicIp::Enabled
            } else {
                AssignPublicIp::Disabled
            })
            .build()
            .map_err(broken)?;
        let container = ContainerOverride::builder()
            .name(CONTAINER)
            .set_environment(Some(self.variables(order).await?))
            .build();
        let tag =
            |key: &str, value: &str| Tag::builder().key(key).value(crate::names::safe_name(value)).build();
        let name = &order.name;
        // The same for each start of the same job: the second one finds the first one's task. Where that never came,
        // the next time asks for another; should both come, one of them finds the job claimed.
        let start = format!("task/{}/{}", name.folder(), order.asked);
        let token = Uuid::new_v5(&NAMESPACE, start.as_bytes()).to_string();
        let started = self
            .ecs
            .run_task()
            .cluster(&self.cluster)
            .task_definition(&self.definition)
            .launch_type(LaunchType::Fargate)
            .client_token(&token)
            .started_by(&token)
            .network_configuration(NetworkConfiguration::builder().awsvpc_configuration(network).build())
            .overrides(TaskOverride::builder().container_overrides(container).build())
            .tags(tag("tenant", name.tenant.as_str()))
            .tags(tag("environment", name.environment.as_str()))
            .tags(tag("run", &name.run.to_string()))
            .send()
            .await;
        let what = format!("cluster {}", self.cluster);
        let started = match started {
            Ok(started) => started,
            // It was started before, with other credentials.
            Err(e) if e.as_service_error().and_then(|e| e.code()) == Some("ConflictException") => {
                return Ok(());
            }
            Err(e) => return Err(fault(&what, e)),
        };
        match started.failures.unwrap_or_default().first() {
            None => Ok(()),
            Some(failure) => {
                let reason = failure.reason.clone().unwrap_or_default();
                let detail = failure.detail.clone().unwrap_or_default();
                Err(PortError::unavailable(what, format!("no task could be started: {reason} {detail}")))
            }
        }
    }

    /// A task lives until ECS says that it has stopped: silence proves nothing, and no deadline ends it by itself.
    async fn gone(&self, claim: &JobClaim, now: DateTime<Utc>) -> Result<Option<String>, PortError> {
        let task = claim.worker.clone().unwrap_or_default();
        let late = now > claim.ends_by + SKEW;
        let found = self.described(&task).await?;
        let Some(found) = found else {
            // ECS forgets a task an hour after its end, and never a living one.
            return Ok(late.then(|| format!("ECS knows task {task} no more, and its credentials are over")));
        };
        if found.last_status.as_deref() == Some("STOPPED") {
            let reason = found.stopped_reason.unwrap_or_else(|| "no reason".to_owned());
            return Ok(Some(format!("task {task} is STOPPED ({reason})")));
        }
        if late {
            let stop =
                self.ecs.stop_task().cluster(&self.cluster).task(&task).reason("its deadline has passed");
            stop.send().await.map_err(|e| fault(&format!("cluster {}", self.cluster), e))?;
        }
        Ok(None)
    }
}

/// What a task was started with.
pub struct TaskJob {
    /// The job.
    pub name: JobName,
    /// What it may use.
    pub keys: JobKeys,
}

impl TaskJob {
    /// Opens what a task finds in its variables, by its own role.
    pub async fn open(
        kms: &aws_sdk_kms::Client,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<TaskJob, PortError> {
        let hint = "a task is started by the stack's own applier";
        let text = variable(JOB_VARIABLE)
            .ok_or_else(|| PortError::broken(format!("{JOB_VARIABLE} names no job"), hint))?;
        let name: JobName = serde_json::from_str(&text)
            .map_err(|e| PortError::broken_by(format!("{JOB_VARIABLE} names no job"), hint, e))?;
        let own = variable(OWN_VARIABLE)
            .ok_or_else(|| PortError::broken(format!("{OWN_VARIABLE} is missing"), hint))?;
        let own = opened(kms, &name, &own).await?;
        let identity = match variable(IDENTITY_VARIABLE) {
            Some(sealed) => Some(opened(kms, &name, &sealed).await?),
            None => None,
        };
        Ok(TaskJob { name, keys: JobKeys { own, identity } })
    }
}

async fn opened(
    kms: &aws_sdk_kms::Client,
    name: &JobName,
    sealed: &str,
) -> Result<JobCredentials, PortError> {
    let broken = |what: &str| PortError::broken(format!("a job's keys {what}"), "plan again");
    let sealed = STANDARD.decode(sealed).map_err(|_| broken("are no base64"))?;
    let (key, value) = context(name);
    let opened = kms
        .decrypt()
        .encryption_context(key, value)
        .ciphertext_blob(Blob::new(sealed))
        .send()
        .await
        .map_err(|e| fault("the stack's key", e))?;
    let plain = opened.plaintext.ok_or_else(|| broken("hold nothing"))?;
    // What is wrong with them is not said: an error could show a part of them.
    serde_json::from_slice(plain.as_ref()).map_err(|_| broken("can't be read"))
}
