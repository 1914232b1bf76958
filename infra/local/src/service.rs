//! The resource `local:index:Service`: processes of one command.

mod converge;
mod inputs;
mod record;
mod resource;
mod spec;

pub(crate) use converge::{living, verdict};
pub(crate) use inputs::check;
pub(crate) use record::{Phase, Record};
pub(crate) use resource::{create, delete, preview, read, update};
pub(crate) use spec::Spec;

/// A change of these makes another service.
pub(crate) const FIXED: [&str; 1] = ["name"];
