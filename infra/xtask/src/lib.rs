//! The tasks of this workspace. Depends on no crate of the product, so it also runs
//! while the product doesn't build.

pub mod architecture;
pub mod cargo;
pub mod command_line;
mod deploy;
mod diagnostics;
mod emulator;
mod lint;
mod lint_tools;
pub mod package;
pub mod problem;
mod publish_tools;
mod pulumi;
mod sources;
mod strays;
mod test;
mod test_summary;
mod weigh;
mod weigh_stub;
