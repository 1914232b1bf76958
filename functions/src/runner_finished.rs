//! A runner has left its result in the bucket, or its task has stopped: whoever ordered the job goes on. Either is a
//! hint: what came of the job, its files say.

use application::turns;
use application::workers::{Applier, ApplyRun, PlanRun, Planner};
use application::{Fault, Worker};
use aws::JOB_VARIABLE;
use domain::deployment_specification::NAMESPACE;
use events::{EnvironmentId, ProvisioningRunId, TenantId};
use percent_encoding::percent_decode_str;
use ports::PortError;
use ports::queue::Message;
use ports::runner::Phase;
use ports::runner_place::JobName;
use serde::Deserialize;
use uuid::Uuid;

/// What the account's own bus tells.
#[derive(Debug, Deserialize)]
struct Told {
    detail: Detail,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Detail {
    /// Of the jobs' bucket.
    Arrived { object: Object },
    /// Of ECS.
    Stopped { overrides: Overrides },
}

#[derive(Debug, Deserialize)]
struct Object {
    key: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Overrides {
    container_overrides: Vec<ContainerOverride>,
}

#[derive(Debug, Deserialize)]
struct ContainerOverride {
    #[serde(default)]
    environment: Vec<Variable>,
}

#[derive(Debug, Deserialize)]
struct Variable {
    name: String,
    value: String,
}

fn decoded(part: &str) -> Option<String> {
    percent_decode_str(part).decode_utf8().ok().map(|t| t.into_owned())
}

/// The job whose result has that key.
fn of_result(key: &str) -> Option<JobName> {
    let parts: Vec<&str> = key.split('/').collect();
    let ["jobs", tenant, environment, run, half, "out", "result.json"] = parts[..] else { return None };
    let (phase, start) = half.split_once('-')?;
    Some(JobName {
        tenant: TenantId::new(decoded(tenant)?).ok()?,
        environment: EnvironmentId::new(decoded(environment)?).ok()?,
        run: ProvisioningRunId(run.parse().ok()?),
        phase: [Phase::Plan, Phase::Apply].into_iter().find(|p| p.as_str() == phase)?,
        start: start.parse().ok()?,
    })
}

/// The job that a task was started for.
fn of_task(overrides: &Overrides) -> Option<JobName> {
    let mut variables = overrides.container_overrides.iter().flat_map(|c| &c.environment);
    let job = variables.find(|v| v.name == JOB_VARIABLE)?;
    serde_json::from_str(&job.value).ok()
}

/// The message that goes on with a run, out of what was told.
pub fn message(body: &[u8]) -> Result<Message, Fault> {
    let refused = |what: &str| {
        let from = "it came from another bucket or cluster: see the rules of the bus";
        Fault::from(PortError::broken(what, from))
    };
    let told: Told =
        serde_json::from_slice(body).map_err(|_| refused("it tells of no object and of no task"))?;
    let (job, what) = match &told.detail {
        Detail::Arrived { object } => {
            let none = || refused(&format!("{:?} is no job's result", object.key));
            (of_result(&object.key).ok_or_else(none)?, "result")
        }
        Detail::Stopped { overrides } => {
            (of_task(overrides).ok_or_else(|| refused("its task was started for no job"))?, "stopped")
        }
    };
    let id = Uuid::new_v5(&NAMESPACE, format!("runner-finished/{}/{what}", job.folder()).as_bytes());
    let JobName { tenant, environment, run, phase, .. } = job;
    let group = turns::group(&tenant, &environment);
    let (queue, body) = match phase {
        Phase::Plan => (Planner::ROW.name, serde_json::to_vec(&PlanRun { tenant, environment, run })?),
        Phase::Apply => (Applier::ROW.name, serde_json::to_vec(&ApplyRun { tenant, environment, run })?),
    };
    Ok(Message { id, queue: queue.to_owned(), group, body, correlation: run.to_string(), trace: None })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const RUN: &str = "6f1d2c1e-8a54-5d0b-9a37-51c07e0dc10d";

    fn read(told: &Value) -> Result<Message, String> {
        message(&serde_json::to_vec(told).unwrap_or_default()).map_err(|e| ports::error::chain(&e))
    }

    fn result(key: &str) -> Value {
        json!({"source": "aws.s3", "detail": {"bucket": {"name": "b"}, "object": {"key": key}}})
    }

    fn stopped(environment: &Value) -> Value {
        json!({"source": "aws.ecs", "detail": {"lastStatus": "STOPPED",
               "overrides": {"containerOverrides": [{"name": "sidecar"}, {"environment": environment, "name": "runner"}]}}})
    }

    #[test]
    fn a_result_and_a_stopped_task_wake_the_worker_that_ordered_the_job() {
        let told = read(&result(&format!("jobs/acme/a%2Fb/{RUN}/apply-1/out/result.json")));
        let told = told.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(told.queue, "Applier");
        let name = json!({"tenant": "acme", "environment": "a/b", "run": RUN, "phase": "apply", "start": 1});
        let variable =
            json!([{"name": "X", "value": "1"}, {"name": JOB_VARIABLE, "value": name.to_string()}]);
        let task = read(&stopped(&variable)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((task.queue, &task.group, task.body), (told.queue, &told.group, told.body));
        // Each is a message of its own: the first may have come before the other's news.
        assert_ne!(task.id, told.id);
        let plan = read(&result(&format!("jobs/acme/dev/{RUN}/plan-2/out/result.json")));
        assert_eq!(plan.map(|m| m.queue), Ok("Planner".to_owned()));
    }

    #[test]
    fn what_tells_of_no_job_is_refused() {
        for wrong in [
            json!({}),
            json!("text"),
            json!({"detail": {}}),
            result("jobs/acme/dev/no-id/apply-1/out/result.json"),
            result(&format!("jobs/acme/dev/{RUN}/apply-1/out/other.json")),
            result(&format!("jobs/acme/dev/{RUN}/destroy-1/out/result.json")),
            stopped(&json!([])),
            stopped(&json!([{"name": JOB_VARIABLE, "value": "{}"}])),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}
