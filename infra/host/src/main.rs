//! RuntimeCloudHost: all of Runtime Cloud in one process, and its command line.

mod cli;
mod consumers;
mod crash_points;
mod host;
mod operations;
mod people;
mod programs;
mod schedule_loop;
mod settings;
mod wiring;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    // One binary under three names: before anything else happens, and before any thread.
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().map(|a| Path::new(a).file_name().unwrap_or(a).to_owned()).unwrap_or_default();
    if name == "pulumi-resource-local" {
        return code(local::serve(args.into_iter()));
    }
    if let [_, first, dir] = args.as_slice()
        && first == process::SUPERVISE_ARGUMENT
    {
        return code(process::supervisor_main(Path::new(dir)));
    }
    code(cli::main())
}

fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
