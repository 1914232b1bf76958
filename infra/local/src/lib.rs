//! A Pulumi provider for this machine: services made of processes, and files, below one root folder.

mod check;
mod difference;
mod digest;
mod error;
mod file;
mod folder;
mod health;
mod inventory;
mod process;
mod property;
mod provider;
mod root;
mod schema;
mod serve;
mod service;
mod stop;

pub use health::Verdict;
pub use inventory::{ServiceStatus, Stopped, list, stop_all};
pub use process::ProcessId;
pub use root::ROOT_VARIABLE;
pub use serve::serve;
