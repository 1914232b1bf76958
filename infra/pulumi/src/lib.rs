//! Pulumi's own words: how it is found, started, read and believed.

mod about;
mod access;
mod checkpoint;
mod collect;
mod engine_events;
mod failure;
mod fetched;
mod job_files;
mod places;
mod preview;
mod program_check;
mod project;
mod redact;
mod refresh;
mod remains;
mod remote_job;
mod remote_runner;
mod remote_stopper;
mod runner;
mod stack;
mod step_values;
mod steps;
mod toolbox;
pub mod tools;
mod workspace;

pub use places::{Choice, Place, Places, SHORT_TYPES};
pub use program_check::{ProgramRefusal, check_program};
pub use project::{Project, ProjectError};
pub use redact::Redactor;
pub use remote_job::{Work, work};
pub use remote_runner::RemoteRunner;
pub use remote_stopper::RemoteStopper;
pub use runner::{HostRunner, HostRunnerSettings};
pub use stack::stack_name;
pub use toolbox::ToolBox;
