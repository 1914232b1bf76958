//! The HTTP interface: routes over commands and queries, who asks, and problems that say what to do.

mod api;
mod environments;
mod events;
mod extract;
mod identity;
mod operations;
mod problem;
mod runs;

pub use api::{Api, EventLog, LoggedEvent, Operations, router};
pub use application::queries::Check;
pub use identity::{Caller, Identity, Role};
pub use problem::Problem;
