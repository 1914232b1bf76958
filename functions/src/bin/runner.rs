//! The runner: one job at a time, as a function that is invoked with it, or as a task that is started for it. It is
//! also the supervisor of its own sessions, under another argument.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws::{JobInvocation, TaskJob};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use runtime_cloud_functions::door::{cannot_begin, deadline, logs, optional};
use runtime_cloud_functions::job::{Given, JobRunner};
use runtime_cloud_functions::wiring::Account;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

/// The argument of a task's container.
const TASK: &str = "task";

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args_os().skip(1);
    let argument = arguments.next();
    if argument.as_ref().is_some_and(|a| a == process::SUPERVISE_ARGUMENT) {
        let Some(folder) = arguments.next() else { return Err("a supervisor needs a folder".into()) };
        process::supervisor_main(Path::new(&folder));
    }
    logs();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime
        .block_on(async { if argument.is_some_and(|a| a == TASK) { task().await } else { function().await } })
}

async fn function() -> Result<(), Error> {
    let runner = JobRunner::begin(Account::connect().await).await.map_err(|e| cannot_begin(&e))?;
    let handle = async |event: LambdaEvent<JobInvocation>| {
        let stream = optional("AWS_LAMBDA_LOG_STREAM_NAME").unwrap_or_default();
        let given = Given {
            name: &event.payload.name,
            keys: &event.payload.keys,
            worker: format!("function {stream}, request {}", event.context.request_id),
            place_ends: deadline(&event.context),
            stopped: Arc::default(),
        };
        one(&runner, given).await
    };
    run(service_fn(handle)).await
}

/// What ECS tells a task of itself.
#[derive(Deserialize)]
struct TaskMetadata {
    #[serde(rename = "TaskARN")]
    arn: String,
}

/// Where a task asks for that.
const METADATA: &str = "ECS_CONTAINER_METADATA_URI_V4";

async fn task() -> Result<(), Error> {
    let runner = JobRunner::begin(Account::connect().await).await.map_err(|e| cannot_begin(&e))?;
    let about = tokio::task::spawn_blocking(|| {
        let address = optional(METADATA).ok_or(format!("{METADATA} is missing: this is no task of ECS"))?;
        let limit = Some(Duration::from_secs(5));
        let agent = ureq::Agent::config_builder().timeout_global(limit).build().new_agent();
        let mut answer = agent.get(format!("{address}/task")).call()?;
        Ok::<_, Error>(answer.body_mut().read_json::<TaskMetadata>()?)
    });
    let about = about.await??;
    let job = TaskJob::open(&runner.account().clients.kms(), optional).await.map_err(|e| e.chain())?;
    // Nothing ends a task by itself: it is over with its credentials, and the controller stops it then.
    let place_ends = job.keys.end_at();
    let stopped = Arc::<AtomicBool>::default();
    // Sent when somebody stops the task, or its machine goes; two minutes later it is over.
    let mut told = signal(SignalKind::terminate())?;
    let heard = Arc::clone(&stopped);
    tokio::spawn(async move {
        told.recv().await;
        tracing::warn!("the task is stopped; its job ends early");
        heard.store(true, Ordering::Relaxed);
    });
    one(&runner, Given { name: &job.name, keys: &job.keys, worker: about.arn, place_ends, stopped }).await
}

async fn one(runner: &JobRunner, given: Given<'_>) -> Result<(), Error> {
    let job = given.name.folder();
    match runner.run(given).await {
        Ok(true) => tracing::info!(job, "done"),
        Ok(false) => tracing::info!(job, "somebody else has it"),
        Err(e) => return Err(Error::from(format!("job {job}: {}", e.chain()))),
    }
    Ok(())
}
