//! Policies in Cedar: the default set beside the code, further ones from a folder, all checked against one schema.

mod engine;
mod error;
mod load;

pub use engine::{CedarPolicies, Role};
pub use error::PolicyError;
