//! The host alone, for real use.

use std::sync::Arc;

use clap::Args;
use pulumi::ToolBox;
use pulumi::tools::{Progress, ToolsSettings};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::client::CliError;
use super::say::{self, say};
use super::{Context, exit};
use crate::host::Host;

/// The host.
#[derive(Args)]
pub struct Up {
    /// The port on 127.0.0.1; 0 takes any that is free.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

/// Logs to standard error: for people on a terminal, else JSON lines.
pub fn log() {
    use std::io::IsTerminal;
    let filter = std::env::var_os("RUST_LOG").and_then(|f| f.into_string().ok());
    let filter =
        tracing_subscriber::EnvFilter::new(filter.unwrap_or_else(|| "warn,runtime_cloud=info".to_owned()));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber in one process is no failure.
    drop(if std::io::stderr().is_terminal() { lines.try_init() } else { lines.json().try_init() });
}

/// A runtime for a host.
pub fn runtime() -> Result<Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(CliError::failed)
}

/// Pulumi, with its download or build shown.
pub fn tool_box() -> Arc<ToolBox> {
    let bar = indicatif::ProgressBar::new_spinner();
    ToolBox::new(ToolsSettings::usual(), move |progress| match progress {
        Progress::WaitingForAnother => bar.set_message("another process is getting Pulumi"),
        Progress::Downloading { received, total } => {
            let total = total.map(|t| format!(" of {} MB", t / 1_000_000)).unwrap_or_default();
            bar.set_message(format!("getting Pulumi: {} MB{total}", received / 1_000_000));
        }
        Progress::Unpacking => bar.set_message("unpacking Pulumi"),
        Progress::Building { program, line } => bar.set_message(format!("building {program}: {line}")),
    })
}

/// Gets Pulumi ready; one line of JSON says where it is.
pub fn tools() -> Result<i32, CliError> {
    let found = runtime()?.block_on(tool_box().get()).map_err(CliError::failed)?;
    let line = serde_json::json!({
        "pulumi": found.pulumi, "dirs": found.path_dirs, "version": found.version.to_string(),
        "origin": format!("{:?}", found.origin),
    });
    say::json(&line.to_string())?;
    Ok(exit::OK)
}

impl Up {
    /// Runs until it is told to stop.
    pub fn run(&self, context: &Context) -> Result<i32, CliError> {
        log();
        let runtime = runtime()?;
        let code = runtime.block_on(async {
            let tools = tool_box();
            let host =
                Host::start(&context.data, self.port, Arc::clone(&tools)).await.map_err(CliError::failed)?;
            // A host works on, whoever reads this.
            drop(say!("listening on http://{} for {}", host.address, context.data.display()));
            // Pulumi is got ready beside the work, not before it.
            tokio::spawn(async move {
                if let Err(e) = tools.get().await {
                    tracing::error!(error = %e.chain(), "no plan can be made");
                }
            });
            wait_and_stop(host).await
        });
        runtime.shutdown_timeout(std::time::Duration::from_millis(200));
        code
    }
}

/// Waits for a signal or a failing disk, then stops.
pub async fn wait_and_stop(host: Host) -> Result<i32, CliError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
    let failed = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        failed = host.disk_failed() => Some(failed),
    };
    host.stop().await;
    match failed {
        Some(failed) => Err(CliError::failed(failed)),
        None => Ok(exit::OK),
    }
}
