//! Supervised process sessions that outlive their starter, and proof of their death.

mod cgroup;
mod detach;
mod exit;
mod identity;
mod job;
mod life;
mod look;
mod members;
mod sandbox;
mod session_dir;
mod signals;
mod start;
mod step;
mod stop;
mod supervisor;

pub use detach::detach;
pub use exit::{EndedBy, Exit, Status, StepExit};
pub use identity::ProcessId;
pub use job::{Graceful, Job, MARKER_VARIABLE, SecretFile, Secrets, Stdin, Step};
pub use life::{Evidence, Life, Proof};
pub use look::{left_behind, look, wait};
pub use sandbox::Sandbox;
pub use start::{StartError, Started, start};
pub use stop::{StopError, kill, remove, stop};
pub use supervisor::{SUPERVISE_ARGUMENT, supervisor_main};
