//! Sessions with real processes. This program is also the supervisor and the other parts it needs.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects and stops there"
)]

// The name that the other members know it by.
extern crate runtime_cloud_process as process;

mod death;
mod limits;
mod running;
mod sandbox;
mod secrets;
mod stage;

use std::path::Path;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, process::SUPERVISE_ARGUMENT, dir] => std::process::exit(process::supervisor_main(Path::new(dir))),
        [_, stage::START_AND_HANG, dir] => stage::start_and_hang(Path::new(dir)),
        [_, stage::LEAVE_A_SERVICE, file] => stage::leave_a_service(Path::new(file)),
        [_, sandbox::WORK_AND_CLEAR, folder] => sandbox::work_and_clear(Path::new(folder)),
        _ => {}
    }
    let mut trials = Vec::new();
    // Each with a cgroup of its own, where this machine allows one, and without.
    for own_cgroup in [true, false] {
        let kind = if own_cgroup { "cgroup" } else { "plain" };
        for (name, test) in cases() {
            trials.push(Trial::test(format!("{name}::{kind}"), move || {
                test(&stage::Stage::new(own_cgroup));
                Ok(())
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

type Case = (&'static str, fn(&stage::Stage));

fn cases() -> Vec<Case> {
    [running::CASES, limits::CASES, secrets::CASES, death::CASES, sandbox::CASES].concat()
}
