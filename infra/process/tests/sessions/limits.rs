//! Early ends: asked for, or because a limit was passed.

use std::process::Command;

use process::{EndedBy, Life, Secrets, Status};

use crate::Case;
use crate::stage::{LIMIT, Stage, exe, unix_ms};

pub const CASES: &[Case] = &[
    ("a_stop_is_one_graceful_signal", graceful),
    ("a_stop_that_comes_too_late_changes_nothing", stop_ignored_but_done),
    ("a_step_that_ignores_the_stop_is_killed_after_the_grace", grace_passes),
    ("a_kill_does_not_wait_for_the_grace", kill_now),
    ("a_kill_reaches_grandchildren_in_groups_of_their_own", kill_grandchildren),
    ("a_step_past_its_time_is_stopped", step_timeout),
    ("the_deadline_stops_the_session", deadline),
    ("a_deadline_in_the_past_starts_no_step", past_deadline),
    ("a_full_disk_does_not_hide_the_end", full_disk),
    ("too_much_output_stops_the_session", output_limit),
];

/// Counts the graceful signals it gets and ends some time after the first, as Pulumi does.
const COUNTS: &str = "trap 'echo told >> told' INT; echo up > up; \
    while [ ! -e told ]; do sleep 0.01; done; sleep 0.3; exit 1";

fn graceful(stage: &Stage) {
    let steps = vec![stage.shell("counts", COUNTS), stage.shell("next", "true")];
    stage.start(&stage.job(steps));
    stage.await_file("up");
    process::stop(&stage.dir()).unwrap();
    stage.await_file("told");
    process::stop(&stage.dir()).unwrap();
    let exit = stage.finished();
    assert_eq!(exit.ended_by, EndedBy::Stopped);
    assert_eq!(exit.step("counts").unwrap().status, Status::Code(1));
    assert_eq!(stage.await_file("told"), "told");
    assert!(!exit.killed);
    process::stop(&stage.dir()).unwrap();
}

fn stop_ignored_but_done(stage: &Stage) {
    let script = COUNTS.replace("exit 1", "exit 0");
    stage.start(&stage.job(vec![stage.shell("counts", &script)]));
    stage.await_file("up");
    process::stop(&stage.dir()).unwrap();
    assert_eq!(stage.finished().ended_by, EndedBy::Completed);
}

const STUBBORN: &str = "trap '' INT TERM; echo up > up; while :; do sleep 600; done";

fn grace_passes(stage: &Stage) {
    let mut job = stage.job(vec![stage.shell("stubborn", STUBBORN)]);
    job.grace_ms = 100;
    stage.start(&job);
    stage.await_file("up");
    process::stop(&stage.dir()).unwrap();
    let exit = stage.finished();
    assert_eq!(exit.ended_by, EndedBy::Stopped);
    assert_eq!(exit.step("stubborn").unwrap().status, Status::Signal(9));
    assert!(exit.killed);
}

fn kill_now(stage: &Stage) {
    stage.start(&stage.job(vec![stage.shell("stubborn", STUBBORN)]));
    stage.await_file("up");
    process::kill(&stage.dir()).unwrap();
    let exit = stage.finished();
    assert_eq!(exit.ended_by, EndedBy::Stopped);
    assert_eq!(exit.step("stubborn").unwrap().status, Status::Signal(9));
}

fn kill_grandchildren(stage: &Stage) {
    // Job control gives the grandchild a process group of its own, as Pulumi gives its plugins.
    let script = "set -m; sh -c 'trap \"\" INT TERM; echo $$ > inner; while :; do sleep 600; done' & wait";
    stage.start(&stage.job(vec![stage.shell("outer", script)]));
    let inner = stage.await_process("inner");
    process::kill(&stage.dir()).unwrap();
    assert_eq!(stage.finished().ended_by, EndedBy::Stopped);
    assert!(!inner.alive());
}

fn step_timeout(stage: &Stage) {
    let mut slow = stage.shell("slow", "exec sleep 600");
    slow.timeout_ms = 100;
    let exit = stage.run(&stage.job(vec![slow, stage.shell("next", "true")]));
    assert_eq!(exit.ended_by, EndedBy::StepFailed { name: "slow".into() });
    let end = exit.step("slow").unwrap();
    assert!(end.timed_out);
    assert_eq!(end.status, Status::Signal(2));
    assert!(exit.step("next").is_none());
}

fn deadline(stage: &Stage) {
    let mut job = stage.job(vec![stage.shell("slow", "exec sleep 600")]);
    job.deadline_unix_ms = unix_ms() + 200;
    let exit = stage.run(&job);
    assert_eq!(exit.ended_by, EndedBy::Deadline);
}

fn past_deadline(stage: &Stage) {
    let mut job = stage.job(vec![stage.shell("never", "true")]);
    job.deadline_unix_ms = unix_ms() - 1;
    let exit = stage.run(&job);
    assert_eq!(exit.ended_by, EndedBy::Deadline);
    assert!(exit.steps.is_empty());
}

fn output_limit(stage: &Stage) {
    let mut job = stage.job(vec![
        stage.shell("some", "head -c 600 /dev/zero"),
        // Together more than the limit, each alone less.
        stage.shell("more", "head -c 600 /dev/zero >&2; exec sleep 600"),
    ]);
    job.output_limit = 1000;
    let exit = stage.run(&job);
    assert_eq!(exit.ended_by, EndedBy::OutputLimit);
    assert_eq!(exit.steps.len(), 2);
}

fn full_disk(stage: &Stage) {
    let disk = stage.file("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| Command::new(arguments[0]).args(&arguments[1..]).arg(&disk).status();
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs"]).is_ok_and(|status| status.success()) {
        println!("a small disk can't be mounted here, so a full one is not tried");
        return;
    }
    let script =
        format!("cd {}; head -c 10M /dev/zero > filler; head -c 9k filler > more || exit 4", disk.display());
    let job = stage.job(vec![stage.shell("fills", &script)]);
    let session = disk.join("session");
    process::start(&exe(), &session, &job, &Secrets::new()).unwrap();
    let life = process::wait(&session, LIMIT);
    assert!(mount(&["umount"]).unwrap().success());
    match life {
        Life::Finished { exit, .. } => assert_eq!(exit.steps[0].status, Status::Code(4)),
        other => panic!("{other:?}"),
    }
}
