//! Adoption and proof of death (rules 20 and 21).

use std::fs;
use std::path::Path;
use std::time::Duration;

use process::{EndedBy, Evidence, Life, ProcessId, Secrets, StartError};

use crate::Case;
use crate::stage::{LIMIT, Stage, exe, signal};

pub const CASES: &[Case] = &[
    ("rule_21_a_killed_host_leaves_a_session_that_another_adopts", adoption),
    ("rule_20_a_killed_supervisor_is_not_dead_while_its_step_lives", supervisor_killed),
    ("rule_20_a_marker_alone_keeps_a_session_from_being_dead", marker_alone),
    ("a_killed_supervisor_lets_its_step_stop_gracefully", step_is_told),
    ("rule_20_a_reused_pid_fools_nobody", reused_pid),
    ("rule_20_another_boot_is_proof", other_boot),
    ("rule_20_another_boot_is_no_proof_while_the_lock_is_held", other_boot_but_locked),
    ("a_start_whose_supervisor_never_came_up_is_dead_and_stays_so", never_came_up),
    ("half_a_handover_starts_nothing", half_a_handover),
    ("an_unreadable_record_is_unknown_not_dead", unreadable),
    ("waiting_ends_with_its_limit", wait_limit),
    ("rule_20_a_session_without_its_directory_is_found_by_its_processes", without_directory),
];

const WAITS: &str = "echo $$ > pid; until [ -e go ]; do sleep 0.01; done";
const STUBBORN: &str = "trap '' INT TERM; echo $$ > pid; until [ -e go ]; do sleep 0.01; done";

fn go(stage: &Stage) {
    fs::write(stage.file("go"), "").unwrap();
}

fn adoption(stage: &Stage) {
    let job = stage.job(vec![stage.shell("waits", WAITS), stage.shell("next", "echo done")]);
    let mut host = stage.start_elsewhere(&job);
    let step = stage.await_process("pid");
    host.kill().unwrap();
    host.wait().unwrap();
    assert!(step.alive());
    assert!(matches!(process::look(&stage.dir()), Life::Running { supervisor: Some(_), .. }));
    go(stage);
    assert_eq!(stage.finished().ended_by, EndedBy::Completed);
    assert_eq!(stage.output("1-next.stdout"), "done\n");
}

fn killed_supervisor(stage: &Stage, script: &str) -> ProcessId {
    let started = stage.start(&stage.job(vec![stage.shell("waits", script)]));
    let step = stage.await_process("pid");
    signal(started.supervisor, "KILL");
    crate::stage::until(|| !started.supervisor.alive());
    step
}

fn assert_dead(stage: &Stage, life: &Life) {
    match life {
        Life::Dead(proof) => {
            assert!(proof.may_have_run);
            let record = fs::read(stage.dir().join("supervisor.json")).unwrap();
            let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
            let grouped = !record["cgroup"].is_null();
            let expected = if grouped { Evidence::CgroupEmpty } else { Evidence::NobodyLeft };
            assert_eq!(proof.evidence, expected);
        }
        other => panic!("not dead: {other:?}"),
    }
}

fn supervisor_killed(stage: &Stage) {
    let step = killed_supervisor(stage, STUBBORN);
    match process::look(&stage.dir()) {
        Life::Unknown { survivors, .. } => assert!(survivors.contains(&step)),
        other => panic!("{other:?}"),
    }
    assert!(process::remove(&stage.dir()).is_err());
    process::kill(&stage.dir()).unwrap();
    assert!(!step.alive());
    assert_dead(stage, &process::wait(&stage.dir(), LIMIT));
    process::remove(&stage.dir()).unwrap();
}

fn marker_alone(stage: &Stage) {
    // Closes the lock; what stays behind has only the marker left, in a session of its own.
    let close: String = (3..21).map(|number| format!(" {number}>&-")).collect();
    fs::write(stage.file("stubborn.sh"), STUBBORN).unwrap();
    let script = format!("setsid sh stubborn.sh > /dev/null 2>&1{close} & {WAITS_FOR_PID}; wait");
    let step = killed_supervisor(stage, &script);
    assert!(step.alive());
    assert!(matches!(process::look(&stage.dir()), Life::Unknown { .. }));
    go(stage);
    assert_dead(stage, &process::wait(&stage.dir(), LIMIT));
}

const WAITS_FOR_PID: &str = "until [ -s pid ]; do sleep 0.01; done";

fn step_is_told(stage: &Stage) {
    let script = "trap 'echo told > told; exit 1' INT; echo $$ > pid; while :; do sleep 0.01; done";
    killed_supervisor(stage, script);
    assert_eq!(stage.await_file("told"), "told");
    assert_dead(stage, &process::wait(&stage.dir(), LIMIT));
}

fn rewrite(file: &Path, change: impl Fn(&mut serde_json::Value)) {
    let mut record = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut record);
    fs::write(file, serde_json::to_vec(&record).unwrap()).unwrap();
}

fn reused_pid(stage: &Stage) {
    killed_supervisor(stage, WAITS);
    assert_dead(stage, &process::wait(&stage.dir(), LIMIT));
    // As if this test had got the supervisor's pid: a living process, started later.
    let me = ProcessId::current().unwrap();
    rewrite(&stage.dir().join("supervisor.json"), |record| {
        record["process"]["pid"] = me.pid.into();
        record["process"]["start_ticks"] = (me.start_ticks - 1).into();
    });
    assert_dead(stage, &process::look(&stage.dir()));
    process::stop(&stage.dir()).unwrap();
    process::kill(&stage.dir()).unwrap();
}

fn other_boot(stage: &Stage) {
    killed_supervisor(stage, WAITS);
    process::wait(&stage.dir(), LIMIT);
    rewrite(&stage.dir().join("job.json"), |record| record["boot_id"] = "another".into());
    match process::look(&stage.dir()) {
        Life::Dead(proof) => assert_eq!(proof.evidence, Evidence::Rebooted),
        other => panic!("{other:?}"),
    }
}

fn other_boot_but_locked(stage: &Stage) {
    stage.start(&stage.job(vec![stage.shell("waits", WAITS)]));
    stage.await_process("pid");
    rewrite(&stage.dir().join("job.json"), |record| record["boot_id"] = "another".into());
    assert!(matches!(process::look(&stage.dir()), Life::Unknown { .. }));
    go(stage);
    stage.finished();
}

fn never_came_up(stage: &Stage) {
    let job = stage.job(vec![stage.shell("never", "echo ran > ran")]);
    for exe in ["/no/such/program", "/bin/false"] {
        let dir = stage.file(exe.rsplit('/').next().unwrap());
        let refused = process::start(Path::new(exe), &dir, &job, &Secrets::new());
        assert!(matches!(refused, Err(StartError::NotUp { .. })), "{refused:?}");
        match process::wait(&dir, LIMIT) {
            Life::Dead(proof) => assert!(!proof.may_have_run),
            other => panic!("{other:?}"),
        }
        let again = process::start(&crate::stage::exe(), &dir, &job, &Secrets::new());
        assert!(matches!(again, Err(StartError::AlreadyThere { .. })));
    }
    assert!(!stage.file("ran").exists());
}

fn half_a_handover(stage: &Stage) {
    // What a supervisor sees whose starter died while it wrote: the lock, and half the secrets.
    let job = stage.job(vec![stage.shell("never", "echo ran > ran")]);
    let dir = stage.dir();
    let _ = process::start(Path::new("/bin/false"), &dir, &job, &Secrets::new());
    let lock = fs::File::open(dir.join("lock")).unwrap();
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut supervisor = std::process::Command::new(exe())
        .arg(process::SUPERVISE_ARGUMENT)
        .arg(&dir)
        .stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(std::process::Stdio::from(lock))
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut ours, b"{\"pass").unwrap();
    drop(ours);
    assert_eq!(supervisor.wait().unwrap().code(), Some(2));
    assert!(!stage.file("ran").exists());
    assert!(matches!(process::wait(&dir, LIMIT), Life::Dead(proof) if !proof.may_have_run));
}

fn unreadable(stage: &Stage) {
    killed_supervisor(stage, WAITS);
    process::wait(&stage.dir(), LIMIT);
    fs::write(stage.dir().join("supervisor.json"), "{").unwrap();
    assert!(matches!(process::look(&stage.dir()), Life::Unknown { .. }));
    fs::write(stage.dir().join("exit.json"), "{").unwrap();
    assert!(matches!(process::look(&stage.dir()), Life::Unknown { .. }));
}

fn wait_limit(stage: &Stage) {
    stage.start(&stage.job(vec![stage.shell("waits", WAITS)]));
    let life = process::wait(&stage.dir(), Duration::from_millis(20));
    assert!(matches!(life, Life::Running { .. }));
    go(stage);
    stage.finished();
}

fn without_directory(stage: &Stage) {
    let job = stage.job(vec![stage.shell("waits", WAITS)]);
    let started = stage.start(&job);
    let step = stage.await_process("pid");
    fs::remove_dir_all(stage.dir()).unwrap();
    assert!(matches!(process::look(&stage.dir()), Life::NeverStarted));
    let living = process::left_behind(&stage.dir(), &job.marker);
    assert!(living.contains(&step) && living.contains(&started.supervisor), "{living:?}");
    assert!(process::left_behind(&stage.file("other"), "another-marker").is_empty());
    go(stage);
    signal(started.supervisor, "KILL");
    crate::stage::until(|| process::left_behind(&stage.dir(), &job.marker).is_empty());
}
