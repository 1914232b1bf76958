//! What runs, in which order, and what is left of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;

use process::{EndedBy, Life, Secrets, StartError, Status};

use crate::Case;
use crate::stage::{LEAVE_A_SERVICE, LIMIT, Stage, exe, signal};

pub const CASES: &[Case] = &[
    ("steps_run_in_order_and_leave_private_outputs", steps_in_order),
    ("nothing_is_inherited_but_the_marker", environment),
    ("an_unaccepted_code_ends_the_session", unaccepted_code),
    ("an_accepted_code_goes_on", accepted_code),
    ("a_program_that_does_not_exist_is_a_spawn_failure", no_program),
    ("of_many_starts_one_wins", many_starts),
    ("a_job_that_cannot_run_leaves_nothing", invalid_job),
    ("what_lingers_is_killed_at_the_end", lingering),
    ("what_sheds_marker_and_lock_but_not_the_session_is_killed", shedding),
    ("a_detached_service_lives_on", detached),
    ("a_hang_up_is_ignored", hang_up),
    ("a_finished_session_can_be_removed", removed),
];

fn steps_in_order(stage: &Stage) {
    let steps = vec![
        stage.shell("first", "echo one; echo problem >&2; echo 1 > seen"),
        stage.shell("second", "cat seen; exit 0"),
    ];
    let exit = stage.run(&stage.job(steps));
    assert_eq!(exit.ended_by, EndedBy::Completed);
    assert!(!exit.killed);
    let ends: Vec<_> = exit.steps.iter().map(|step| (step.name.as_str(), step.status)).collect();
    assert_eq!(ends, [("first", Status::Code(0)), ("second", Status::Code(0))]);
    assert_eq!(stage.output("0-first.stdout"), "one\n");
    assert_eq!(stage.output("0-first.stderr"), "problem\n");
    assert_eq!(stage.output("1-second.stdout"), "1\n");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&stage.dir()), 0o700);
    for entry in fs::read_dir(stage.dir()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

fn environment(stage: &Stage) {
    let mut step = stage.shell("env", "env | sort");
    step.env.insert("ONLY".into(), "this".into());
    let job = stage.job(vec![step]);
    stage.run(&job);
    let marker = format!("RUNTIME_CLOUD_RUN={}", job.marker);
    let text = stage.output("0-env.stdout");
    // The shell itself sets PWD and its like.
    let named: Vec<&str> = text.lines().filter(|line| !line.starts_with(['P', '_', 'S'])).collect();
    assert_eq!(named, ["ONLY=this", marker.as_str()]);
}

fn unaccepted_code(stage: &Stage) {
    let steps = vec![stage.shell("first", "exit 3"), stage.shell("second", "echo ran")];
    let exit = stage.run(&stage.job(steps));
    assert_eq!(exit.ended_by, EndedBy::StepFailed { name: "first".into() });
    assert_eq!(exit.step("first").unwrap().status, Status::Code(3));
    assert!(exit.step("second").is_none());
    assert!(!stage.dir().join("1-second.stdout").exists());
}

fn accepted_code(stage: &Stage) {
    let mut first = stage.shell("first", "exit 7");
    first.accepted_codes = vec![0, 7];
    let exit = stage.run(&stage.job(vec![first, stage.shell("second", "exit 0")]));
    assert_eq!(exit.ended_by, EndedBy::Completed);
    assert_eq!(exit.steps.len(), 2);
}

fn no_program(stage: &Stage) {
    let mut step = stage.shell("absent", "");
    step.argv = vec!["/no/such/program".into()];
    let exit = stage.run(&stage.job(vec![step]));
    assert!(matches!(exit.ended_by, EndedBy::SpawnFailed { name, .. } if name == "absent"));
}

fn many_starts(stage: &Stage) {
    let job = stage.job(vec![stage.shell("count", "echo ran >> count")]);
    let all_at_once = Barrier::new(8);
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    all_at_once.wait();
                    process::start(&exe(), &stage.dir(), &job, &Secrets::new())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for result in results {
        assert!(matches!(result, Ok(_) | Err(StartError::AlreadyThere { .. })), "{result:?}");
    }
    stage.finished();
    assert_eq!(stage.await_file("count"), "ran");
    let left: Vec<_> =
        fs::read_dir(stage.file("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_str().unwrap().starts_with('.')), "{left:?}");
}

fn invalid_job(stage: &Stage) {
    for name in ["", "../up", "Upper"] {
        let job = stage.job(vec![stage.shell(name, "")]);
        let refused = process::start(&exe(), &stage.dir(), &job, &Secrets::new());
        assert!(matches!(refused, Err(StartError::InvalidJob { .. })));
    }
    assert_eq!(process::look(&stage.dir()), Life::NeverStarted);
}

fn lingering(stage: &Stage) {
    let step = stage.shell("leaves", "sleep 600 > /dev/null 2>&1 & echo $! > plugin");
    let exit = stage.run(&stage.job(vec![step]));
    assert_eq!(exit.ended_by, EndedBy::Completed);
    let pid = stage.await_file("plugin").parse().unwrap();
    assert!(process::ProcessId::of(pid).is_none());
}

fn shedding(stage: &Stage) {
    // Closes every descriptor from 3 to 20 and clears its environment, as Python's subprocess can.
    let close: String = (3..21).map(|number| format!(" {number}>&-")).collect();
    let script = format!("env -i sleep 600 > /dev/null 2>&1{close} & echo $! > shed");
    stage.run(&stage.job(vec![stage.shell("sheds", &script)]));
    let pid = stage.await_file("shed").parse().unwrap();
    assert!(process::ProcessId::of(pid).is_none());
}

fn detached(stage: &Stage) {
    let mut step = stage.shell("service", "");
    step.argv = [exe().to_str().unwrap(), LEAVE_A_SERVICE, "service"].map(String::from).to_vec();
    let exit = stage.run(&stage.job(vec![step, stage.shell("after", "true")]));
    assert_eq!(exit.ended_by, EndedBy::Completed);
    let service = stage.await_process("service");
    assert!(service.alive());
    signal(service, "KILL");
}

fn hang_up(stage: &Stage) {
    let step = stage.shell("waits", "echo up > up; until [ -e go ]; do sleep 0.01; done");
    let started = stage.start(&stage.job(vec![step]));
    stage.await_file("up");
    signal(started.supervisor, "HUP");
    fs::write(stage.file("go"), "").unwrap();
    assert_eq!(stage.finished().ended_by, EndedBy::Completed);
}

fn removed(stage: &Stage) {
    let step = stage.shell("waits", "until [ -e go ]; do sleep 0.01; done");
    stage.start(&stage.job(vec![step]));
    assert!(process::remove(&stage.dir()).is_err());
    fs::write(stage.file("go"), "").unwrap();
    process::wait(&stage.dir(), LIMIT);
    process::remove(&stage.dir()).unwrap();
    assert_eq!(process::look(&stage.dir()), Life::NeverStarted);
}
