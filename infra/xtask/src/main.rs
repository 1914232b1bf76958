//! `cargo xtask`: what a person and CI run on this workspace.

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime_cloud_xtask::command_line::run(std::env::args().skip(1))
}
