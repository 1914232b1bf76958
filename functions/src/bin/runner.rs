//! The runner: one job at a time, with credentials of that job alone, on a disk that is wiped before and after. It is
//! also the supervisor of its own sessions, under another argument.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws::{JobInvocation, S3Receipts, SecretNames, SecretsManagerBroker};
use git::{GitPrograms, GitSource, Limits};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use ports::PortError;
use pulumi::{HostRunner, HostRunnerSettings, ToolBox, Work, work};
use runtime_cloud_functions::door::{
    DoorError, RandomIds, SystemClock, cannot_begin, deadline, logs, optional, variable,
};
use runtime_cloud_functions::tools::{Installed, Manifest, install};
use runtime_cloud_functions::wiring::Account;

/// What outlives a job: verified tools.
fn tools_folder() -> PathBuf {
    std::env::temp_dir().join("runtime-cloud-tools")
}
/// A job's own, and this sandbox's: an emulator runs several on one disk, each with a log stream of its own.
fn data() -> PathBuf {
    let sandbox = optional("AWS_LAMBDA_LOG_STREAM_NAME").unwrap_or_default();
    std::env::temp_dir().join(format!("runtime-cloud-job-{}", domain::Digest::of(sandbox.as_bytes()).short()))
}
/// What is left for its end when Pulumi has to stop.
const TO_STOP: chrono::TimeDelta = chrono::TimeDelta::seconds(45);
const GRACE: Duration = Duration::from_secs(20);
const OUTPUT_LIMIT: u64 = 50 * 1024 * 1024;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|a| a == process::SUPERVISE_ARGUMENT) {
        let Some(folder) = arguments.next() else { return Err("a supervisor needs a folder".into()) };
        process::supervisor_main(Path::new(&folder));
    }
    logs();
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(serve())
}

async fn serve() -> Result<(), Error> {
    let account = Account::connect().await;
    let begin = async {
        let artifacts = account.tools()?;
        let manifest = Manifest::read(&artifacts, &variable("RUNTIME_CLOUD_TOOLS")?).await?;
        install(&artifacts, &manifest, &tools_folder()).await?;
        Ok((artifacts, manifest))
    };
    let (artifacts, manifest) = begin.await.map_err(|e: DoorError| cannot_begin(&e))?;
    let handle = async |event: LambdaEvent<JobInvocation>| {
        // Verified before each use: the job before this one may have written to the same disk.
        let tools = install(&artifacts, &manifest, &tools_folder()).await.map_err(|e| e.chain())?;
        wipe()?;
        let done = job(&account, tools, &event.payload, deadline(&event.context)).await;
        wipe()?;
        let job = event.payload.name.folder();
        match done {
            Ok(true) => tracing::info!(job, "done"),
            Ok(false) => tracing::info!(job, "somebody else has it"),
            Err(e) => return Err(Error::from(format!("job {job}: {}", e.chain()))),
        }
        Ok::<_, Error>(())
    };
    run(service_fn(handle)).await
}

fn wipe() -> Result<(), std::io::Error> {
    match std::fs::remove_dir_all(data()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn job(
    account: &Account,
    tools: Installed,
    invocation: &JobInvocation,
    ends_by: chrono::DateTime<chrono::Utc>,
) -> Result<bool, PortError> {
    let disk = |e| PortError::unavailable("this function's disk", e);
    let data = data();
    std::fs::create_dir_all(&data).map_err(disk)?;
    std::os::unix::fs::symlink(&tools.plugins, data.join("plugins")).map_err(disk)?;
    let missing = |e: DoorError| PortError::broken(e.to_string(), "deploy the function again");
    let config = aws::connect_as(&account.config, &invocation.credentials);
    let secrets = Arc::new(SecretsManagerBroker {
        client: aws::secrets_manager(&config),
        names: SecretNames(variable("RUNTIME_CLOUD_SECRETS").map_err(missing)?),
        ids: Arc::new(RandomIds),
    });
    let files = S3Receipts {
        client: aws::s3(&config),
        bucket: variable("RUNTIME_CLOUD_JOBS_BUCKET").map_err(missing)?,
    };
    let host = HostRunner {
        settings: HostRunnerSettings {
            data: data.clone(),
            program: std::env::current_exe().map_err(disk)?,
            local_provider: tools.local,
            local_version: env!("CARGO_PKG_VERSION").to_owned(),
            path: "/usr/bin:/bin".to_owned(),
            environment: BTreeMap::new(),
            grace: GRACE,
            output_limit: OUTPUT_LIMIT,
        },
        tools: ToolBox::having(tools.tools),
        programs: Arc::new(GitPrograms {
            source: Arc::new(GitSource::new(data.join("git"), Limits::default())),
            secrets: secrets.clone(),
            clock: Arc::new(SystemClock),
        }),
    };
    let this = Work {
        host: &host,
        files: &files,
        secrets: &*secrets,
        clock: &SystemClock,
        worker: format!("function {}", invocation.name.folder()),
        ends_by: ends_by - TO_STOP,
    };
    work(&this, &invocation.name).await
}
