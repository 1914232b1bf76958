//! The tasks of this workspace: `test`, `lint` and `tools`. Depends on no crate of the product, so it also runs
//! while the product doesn't build.

pub mod architecture;
pub mod cargo;
pub mod command_line;
pub mod findings;
pub mod lint;
pub mod lint_tools;
pub mod problem;
pub mod pulumi;
pub mod sources;
pub mod stray;
pub mod test;
pub mod test_summary;
