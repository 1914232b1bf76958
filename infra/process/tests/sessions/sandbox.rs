//! A sandbox between two jobs: nothing of the first is left, and nobody else is touched.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use process::{ProcessId, Sandbox};

use crate::Case;
use crate::stage::{Stage, exe, until};

pub const CASES: &[Case] = &[("a_cleared_sandbox_holds_no_process_and_touches_no_other", cleared)];

pub const WORK_AND_CLEAR: &str = "__work_and_clear";

/// What a job may leave: a program that has left its session and hears no polite signal, and an orphan.
const LEAVES: &str =
    "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > stubborn; while :; do sleep 600; done' &
    (sh -c 'echo $$ > orphan; exec sleep 600' &)
    sh -c 'echo $$ > reader; cat /proc/'$PPID'/environ > seen 2>&1; exec sleep 600'";

pub fn work_and_clear(folder: &Path) -> ! {
    let sandbox = Sandbox::take().unwrap();
    let mut job = Command::new("sh");
    job.args(["-c", LEAVES]).current_dir(folder).stdin(Stdio::null());
    drop(job.spawn().unwrap());
    let there = |name: &str| fs::read_to_string(folder.join(name)).is_ok_and(|pid| pid.ends_with('\n'));
    until(|| ["stubborn", "orphan", "reader"].into_iter().all(there));
    let killed = sandbox.clear().unwrap();
    assert!(killed >= 4, "{killed}");
    assert_eq!(sandbox.clear().unwrap(), 0);
    std::process::exit(0)
}

fn cleared(stage: &Stage) {
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let done = Command::new(exe()).arg(WORK_AND_CLEAR).arg(stage.file("")).status().unwrap();
    assert!(done.success());
    for name in ["stubborn", "orphan", "reader"] {
        let pid = fs::read_to_string(stage.file(name)).unwrap().trim().parse().unwrap();
        assert_eq!(ProcessId::of(pid), None, "{name}");
    }
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}
