//! Program sources: commits of Git repositories, exported to a folder without running anything.

mod address;
mod cache;
mod credential;
mod error;
mod export;
mod links;
mod local;
mod program_source;
mod remote;
mod source;

pub use credential::Credential;
pub use error::GitError;
pub use program_source::GitPrograms;
pub use source::{Checkout, GitSource, Limits};
