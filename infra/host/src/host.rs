//! One process with all of it: locked folder, loops, API. What it leaves in flight when it ends, by whatever cause,
//! it takes up again when it is back.

use std::fs::{self, File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use embedded::{DataFolder, DatabaseError, FolderError};
use ports::{Cx, PortError, Queue};
use pulumi::ToolBox;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::programs::ProgramsError;
use crate::settings::{HostSettings, SettingsError};
use crate::{consumers, schedule_loop, wiring};

/// Why a host can't start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The data folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The store.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The policies.
    #[error(transparent)]
    Policies(#[from] policies::PolicyError),
    /// The built-in programs.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    /// The machine.
    #[error("{what} can't be used; see the cause")]
    Io {
        /// What.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// The disk lost what it had promised to keep.
    #[error(
        "the store's disk failed ({0}); the host stops, so that nothing is decided on what may be lost: check the disk, then start again"
    )]
    Disk(String),
}

/// Where a running host listens: `host.json` in its data folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Address {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    /// The host's pid.
    pub pid: u32,
}

impl Address {
    /// Of a data folder.
    pub fn file(data: &Path) -> PathBuf {
        data.join("host.json")
    }

    /// Where the host of a data folder listens; None where none works on it. What a killed one left says nothing: its
    /// lock went with it, and its port may be anybody's.
    pub fn of(data: &Path) -> Option<Address> {
        let lock = File::open(data.join("host.lock")).ok()?;
        if !matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        serde_json::from_slice(&fs::read(Address::file(data)).ok()?).ok()
    }
}

/// Locks a data folder, and removes the address that a killed host has left there.
pub fn lock(data: &Path) -> Result<DataFolder, FolderError> {
    let folder = match DataFolder::lock(data) {
        // A client that looks whether a host is there has it for a moment.
        Err(FolderError::Taken { .. }) => {
            std::thread::sleep(Duration::from_millis(50));
            DataFolder::lock(data)?
        }
        other => other?,
    };
    drop(fs::remove_file(Address::file(folder.path())));
    Ok(folder)
}

/// A running host.
pub struct Host {
    /// Where it listens.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    failed: watch::Receiver<Option<String>>,
    folder: DataFolder,
}

/// In the data folder since a backup was restored, until the next host has rolled the store forward.
pub const RESTORED: &str = "restored";

/// How long what is in flight may take to come to its next commit when the host stops.
const PATIENCE: Duration = Duration::from_secs(2);

impl Host {
    /// Starts on a data folder; port 0 takes any.
    pub async fn start(data: &Path, port: u16, tools: Arc<ToolBox>) -> Result<Host, HostError> {
        let folder = lock(data)?;
        let data = std::fs::canonicalize(data)
            .map_err(|source| HostError::Io { what: data.display().to_string(), source })?;
        let settings = HostSettings::read(&data)?;
        let wired = wiring::wire(&data, &settings, tools)?;
        // Whoever had received these is gone: the folder is ours alone.
        wired.queue.free_all().await?;
        let marker = data.join(RESTORED);
        if marker.exists() {
            let message = ports::Ids::fresh(&embedded::RandomIds);
            let now = wired.clock.now();
            let correlation = message.to_string();
            let cx = Cx { message, correlation, trace: None, now, attempt: 1, deadline: now };
            let rolled = wired.api.recover.after_restore(&cx).await.map_err(|e| {
                PortError::broken("the restored store can't be rolled forward", ports::error::chain(&e))
            })?;
            tracing::info!(rolled, "the restored store was rolled forward from the outcomes beside it");
            std::fs::remove_file(&marker)
                .map_err(|source| HostError::Io { what: marker.display().to_string(), source })?;
        }
        let listen = |source| HostError::Io { what: format!("port {port} of 127.0.0.1"), source };
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;

        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let queue: Arc<dyn Queue> = Arc::new(wired.queue.clone());
        for consumer in wired.consumers {
            let (queue, clock) = (Arc::clone(&queue), Arc::clone(&wired.clock));
            let changed = wired.queue.changed(consumer.row().name);
            tasks.spawn(consumers::consume(consumer, queue, clock, changed, stopped.clone()));
        }
        tasks.spawn(relay(wired.relay, stopped.clone()));
        tasks.spawn(schedule_loop::schedules(wired.schedules, wired.schedule_table, stopped.clone()));
        let kept = wired.settings.claim_kept;
        tasks.spawn(schedule_loop::housekeeping(
            wired.operations,
            wired.queue,
            settings,
            kept,
            stopped.clone(),
        ));
        let mut until = stopped;
        let router = http_api::router(wired.api);
        tasks.spawn(async move {
            let end = async move { drop(until.wait_for(|s| *s).await) };
            if let Err(e) = axum::serve(listener, router).with_graceful_shutdown(end).await {
                tracing::error!(error = %e, "the API has stopped");
            }
        });

        let file = Address::file(&data);
        let text = Address { url: format!("http://{address}"), pid: std::process::id() };
        let write = serde_json::to_vec(&text).map_err(std::io::Error::other);
        write
            .and_then(|bytes| {
                let part = file.with_extension("part");
                std::fs::write(&part, bytes)?;
                std::fs::rename(&part, &file)
            })
            .map_err(|source| HostError::Io { what: file.display().to_string(), source })?;
        Ok(Host { address, stop, tasks, failed: wired.database.failed(), folder })
    }

    /// Resolves when the disk fails: the host has to stop then.
    pub async fn disk_failed(&self) -> HostError {
        let mut failed = self.failed.clone();
        let why = failed.wait_for(Option::is_some).await.ok().and_then(|f| f.clone());
        HostError::Disk(why.unwrap_or_else(|| "its writer has stopped".to_owned()))
    }

    /// Stops: no new work is begun; living runs go on without the host and are adopted by the next one.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        drop(tokio::time::timeout(PATIENCE, all).await);
        self.tasks.abort_all();
        drop(std::fs::remove_file(Address::file(self.folder.path())));
    }
}

async fn relay(relay: application::relay::Relay, mut stop: watch::Receiver<bool>) {
    loop {
        let idle = match relay.forward_pending(100).await {
            Ok(0) => true,
            Ok(_) => false,
            Err(e) => {
                tracing::warn!(error = %e.chain(), "letters could not leave; they are tried again");
                true
            }
        };
        if idle {
            tokio::select! {
                () = relay.letters.wait() => {}
                _ = stop.wait_for(|s| *s) => return,
            }
        } else if *stop.borrow() {
            return;
        }
    }
}
