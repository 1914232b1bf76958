//! Secrets reach their program and nobody and nothing else.

use std::fs;
use std::path::Path;

use process::{EndedBy, SecretFile, Secrets, StartError, Stdin};

use crate::Case;
use crate::stage::{Stage, exe};

pub const CASES: &[Case] = &[
    ("a_secret_in_a_pipe_is_read_once", read_once),
    ("a_secret_in_memory_is_read_again", read_again),
    ("a_secret_is_the_standard_input", standard_input),
    ("a_secret_in_a_variable_is_in_its_steps_environment_alone", variable),
    ("secrets_are_in_no_environment_argument_or_file", nowhere_else),
    ("a_missing_or_huge_secret_is_refused", refused),
    ("secrets_do_not_show_themselves", not_shown),
];

const VALUE: &str = "correct-horse-battery";

fn secrets() -> Secrets {
    let mut secrets = Secrets::new();
    secrets.insert("passphrase", VALUE);
    secrets
}

fn read_once(stage: &Stage) {
    let mut step = stage.shell("reads", "cat $PASS; echo .; cat $PASS");
    step.secret_files.insert("PASS".into(), SecretFile::Once("passphrase".into()));
    stage.start_with(&stage.job(vec![step]), &secrets());
    assert_eq!(stage.finished().ended_by, EndedBy::Completed);
    assert_eq!(stage.output("0-reads.stdout"), format!("{VALUE}.\n"));
}

fn read_again(stage: &Stage) {
    let mut step = stage.shell("reads", "cat $PASS; echo .; cat $PASS; echo x >> $PASS || true");
    step.secret_files.insert("PASS".into(), SecretFile::Rereadable("passphrase".into()));
    stage.start_with(&stage.job(vec![step]), &secrets());
    assert_eq!(stage.finished().ended_by, EndedBy::Completed);
    assert_eq!(stage.output("0-reads.stdout"), format!("{VALUE}.\n{VALUE}"));
}

fn standard_input(stage: &Stage) {
    let mut step = stage.shell("reads", "cat");
    step.stdin = Stdin::Secret("passphrase".into());
    let after = stage.shell("after", "cat");
    stage.start_with(&stage.job(vec![step, after]), &secrets());
    stage.finished();
    assert_eq!(stage.output("0-reads.stdout"), VALUE);
    assert_eq!(stage.output("1-after.stdout"), "");
}

fn variable(stage: &Stage) {
    let mut step = stage.shell("reads", "printf %s \"$KEY\"");
    step.secret_env.insert("KEY".into(), "passphrase".into());
    let after = stage.shell("after", "printf %s \"$KEY\"");
    let job = stage.job(vec![step, after]);
    stage.start_with(&job, &secrets());
    assert_eq!(stage.finished().ended_by, EndedBy::Completed);
    assert_eq!(stage.output("0-reads.stdout"), VALUE);
    assert_eq!(stage.output("1-after.stdout"), "");
    fs::remove_file(stage.dir().join("0-reads.stdout")).unwrap();
    no_file_below(&stage.file(""));
    let missing = process::start(&exe(), &stage.file("another"), &job, &Secrets::new());
    assert!(matches!(missing, Err(StartError::InvalidJob { .. })));
}

fn nowhere_else(stage: &Stage) {
    let script = "echo up > up; until [ -e go ]; do sleep 0.01; done; cat $PASS | wc -c";
    let mut step = stage.shell("waits", script);
    step.secret_files.insert("PASS".into(), SecretFile::Once("passphrase".into()));
    stage.start_with(&stage.job(vec![step]), &secrets());
    stage.await_file("up");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        for kind in ["environ", "cmdline"] {
            let bytes = fs::read(entry.path().join(kind)).unwrap_or_default();
            assert!(!holds(&bytes), "{}", entry.path().display());
        }
    }
    no_file_below(&stage.file(""));
    fs::write(stage.file("go"), "").unwrap();
    assert_eq!(stage.finished().ended_by, EndedBy::Completed);
    assert_eq!(stage.output("0-waits.stdout").trim(), VALUE.len().to_string());
    no_file_below(&stage.file(""));
}

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes())
}

fn no_file_below(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            no_file_below(&entry.path());
        } else {
            assert!(!holds(&fs::read(entry.path()).unwrap()), "{}", entry.path().display());
        }
    }
}

fn refused(stage: &Stage) {
    let mut step = stage.shell("reads", "cat $PASS");
    step.secret_files.insert("PASS".into(), SecretFile::Once("passphrase".into()));
    let job = stage.job(vec![step]);
    let missing = process::start(&exe(), &stage.dir(), &job, &Secrets::new());
    assert!(matches!(missing, Err(StartError::InvalidJob { .. })));
    let mut huge = Secrets::new();
    huge.insert("passphrase", vec![b'x'; 100_000]);
    let huge = process::start(&exe(), &stage.dir(), &job, &huge);
    assert!(matches!(huge, Err(StartError::InvalidJob { .. })));
}

fn not_shown(_: &Stage) {
    assert_eq!(format!("{:?}", secrets()), "{\"passphrase\"}");
}
