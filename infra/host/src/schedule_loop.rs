//! What happens by the clock: schedules, backups, forgetting.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use embedded::{Backup, EmbeddedQueue, Schedule, Schedules};
use tokio::sync::watch;

use crate::operations::HostOperations;
use crate::settings::HostSettings;

/// Fires schedules, a second's precision.
pub async fn schedules(schedules: Schedules, table: Vec<Schedule>, mut stop: watch::Receiver<bool>) {
    loop {
        for schedule in &table {
            if let Err(e) = schedules.tick(schedule).await {
                tracing::warn!(schedule = schedule.name, error = %e.chain(), "a tick was missed; it fires later");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            _ = stop.wait_for(|s| *s) => return,
        }
    }
}

/// Makes backups, removes old ones, forgets settled messages.
pub async fn housekeeping(
    operations: Arc<HostOperations>,
    queue: EmbeddedQueue,
    settings: HostSettings,
    kept: TimeDelta,
    mut stop: watch::Receiver<bool>,
) {
    let every = Duration::from_secs(u64::from(settings.backup_every_seconds.max(60)));
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = stop.wait_for(|s| *s) => return,
        }
        if settings.backup_every_seconds > 0
            && let Err(e) = operations.make_backup().await
        {
            tracing::error!(error = %e.chain(), "no backup could be made; free space, or see the disk");
        }
        if let Err(e) = queue.forget(kept).await {
            tracing::warn!(error = %e.chain(), "settled messages could not be forgotten");
        }
    }
}

/// A backup into the data folder, named by its time.
pub async fn backup(
    backup: &Backup,
    folder: &std::path::Path,
    name: &str,
    kept: usize,
) -> Result<String, ports::PortError> {
    let file = folder.join(format!("{name}.sqlite"));
    backup.to(&file).await?;
    embedded::prune(folder, kept).map_err(|e| ports::PortError::unavailable("old backups", e))?;
    Ok(file.to_string_lossy().into_owned())
}
