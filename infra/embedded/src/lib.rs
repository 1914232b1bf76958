//! The embedded default: everything that Runtime Cloud keeps, in one folder on one machine.

mod artifacts;
mod backup;
mod bus;
mod clock;
mod config;
mod database;
mod disk;
mod folder;
mod letters;
mod queue;
mod receipts;
mod rows;
mod schedules;
mod secrets;
mod write;

pub use artifacts::DiskArtifacts;
pub use backup::{Backup, Checked, RestoreError, prune};
pub use bus::{EmbeddedBus, LoggedEvent, Rule};
pub use clock::{RandomIds, SystemClock};
pub use config::EmbeddedConfig;
pub use database::{Database, DatabaseError};
pub use folder::{DataFolder, FolderError};
pub use letters::EmbeddedLetters;
pub use queue::EmbeddedQueue;
pub use receipts::DiskReceipts;
pub use rows::SqliteRows;
pub use schedules::{Schedule, Schedules};
pub use secrets::{FileSecrets, SecretCommand, SecretError};
