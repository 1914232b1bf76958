//! A runner has left its result in the bucket: whoever ordered the job goes on.

use application::turns;
use application::workers::{Applier, ApplyRun, PlanRun, Planner};
use application::{Fault, Worker};
use domain::deployment_specification::NAMESPACE;
use events::{EnvironmentId, ProvisioningRunId, TenantId};
use percent_encoding::percent_decode_str;
use ports::PortError;
use ports::queue::Message;
use serde::Deserialize;
use uuid::Uuid;

/// What the bucket tells: by way of the account's own bus.
#[derive(Debug, Deserialize)]
struct Arrived {
    detail: Detail,
}

#[derive(Debug, Deserialize)]
struct Detail {
    object: Object,
}

#[derive(Debug, Deserialize)]
struct Object {
    key: String,
}

fn decoded(part: &str) -> Option<String> {
    percent_decode_str(part).decode_utf8().ok().map(|t| t.into_owned())
}

/// The message that goes on with a run, out of what the bucket tells.
pub fn message(body: &[u8]) -> Result<Message, Fault> {
    let refused = |what: String| {
        Fault::from(PortError::broken(what, "it came from another bucket: see the rules of the bus"))
    };
    let arrived: Arrived =
        serde_json::from_slice(body).map_err(|e| refused(format!("it tells of no object ({e})")))?;
    let key = arrived.detail.object.key;
    let parts: Vec<&str> = key.split('/').collect();
    let ["jobs", tenant, environment, run, half, "out", "result.json"] = parts[..] else {
        return Err(refused(format!("{key:?} is no job's result")));
    };
    let name = || {
        let tenant = TenantId::new(decoded(tenant)?).ok()?;
        let environment = EnvironmentId::new(decoded(environment)?).ok()?;
        let run: Uuid = run.parse().ok()?;
        Some((tenant, environment, ProvisioningRunId(run)))
    };
    let Some((tenant, environment, run)) = name() else {
        return Err(refused(format!("{key:?} names no run")));
    };
    let group = turns::group(&tenant, &environment);
    let (queue, body) = if half.starts_with("plan-") {
        (Planner::ROW.name, serde_json::to_vec(&PlanRun { tenant, environment, run })?)
    } else {
        (Applier::ROW.name, serde_json::to_vec(&ApplyRun { tenant, environment, run })?)
    };
    let id = Uuid::new_v5(&NAMESPACE, format!("runner-finished/{key}").as_bytes());
    Ok(Message { id, queue: queue.to_owned(), group, body, correlation: run.to_string() })
}
