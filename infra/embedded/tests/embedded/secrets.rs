use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contract::Sample;
use events::EnvironmentId;
use ports::{Secret, SecretBroker};
use runtime_cloud_embedded::{FileSecrets, RandomIds, SecretCommand};

fn secrets(folder: &Path, command: Option<PathBuf>) -> FileSecrets {
    let limit = Duration::from_secs(20);
    let command = command.map(|program| SecretCommand { program, limit });
    FileSecrets { folder: folder.to_owned(), command, ids: Arc::new(RandomIds) }
}

async fn answer(secrets: &FileSecrets, reference: &str) -> Result<Option<(String, String)>, String> {
    let found = secrets.resolve(&Sample::tenant("acme"), reference).await.map_err(|e| e.chain())?;
    Ok(found.map(|s| (s.version, s.value.reveal().to_owned())))
}

fn only_file(folder: &Path) -> PathBuf {
    fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

#[tokio::test]
async fn a_secret_that_others_may_read_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = secrets(folder.path(), None);
    secrets.set(&Sample::tenant("acme"), "db", &Secret::new("hunter2")).unwrap();
    let file = only_file(&folder.path().join("values/acme"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for mode in [0o640, 0o604, 0o666] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let error = answer(&secrets, "db").await.unwrap_err();
        assert!(error.contains("chmod 600") && !error.contains("hunter2"), "{error}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(answer(&secrets, "db").await.unwrap().unwrap().1, "hunter2");
}

#[tokio::test]
async fn a_passphrase_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = secrets(folder.path(), None);
    let (tenant, environment) = (Sample::tenant("acme"), EnvironmentId::new("e1").unwrap());
    let made = secrets.passphrase(&tenant, &environment, true).await.unwrap();
    let file = folder.path().join("passphrases/acme/e1");
    assert_eq!(fs::read_to_string(&file).unwrap(), made.reveal());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!secrets.passphrase(&tenant, &environment, true).await.unwrap_err().is_temporary());
}

#[tokio::test]
async fn another_installation_gives_the_same_value_another_version() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut versions = vec![];
    for folder in [&one, &two] {
        let secrets = secrets(folder.path(), None);
        secrets.set(&Sample::tenant("acme"), "db", &Secret::new("hunter2")).unwrap();
        versions.push(answer(&secrets, "db").await.unwrap().unwrap().0);
    }
    assert_ne!(versions[0], versions[1]);
}

fn command(folder: &Path, script: &str) -> PathBuf {
    let file = folder.join("helper");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
    file
}

#[tokio::test]
async fn a_command_is_asked_where_no_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"[ "$1" = get ] || exit 9
        while read -r line && [ -n "$line" ]; do all="$all|$line"; done
        [ "$all" = "|tenant=acme|ref=vault/db x" ] && printf 'version=7\nvalue=a=b c\n'
        [ "$all" = "|tenant=acme|ref=plain" ] && printf 'value=p\n'
        exit 0"#;
    let secrets = secrets(folder.path(), Some(command(folder.path(), script)));
    assert_eq!(answer(&secrets, "vault/db x").await.unwrap(), Some(("7".to_owned(), "a=b c".to_owned())));
    let (version, value) = answer(&secrets, "plain").await.unwrap().unwrap();
    assert_eq!((value.as_str(), version.len()), ("p", 16));
    assert_eq!(answer(&secrets, "unknown").await.unwrap(), None);
    secrets.set(&Sample::tenant("acme"), "plain", &Secret::new("of the file")).unwrap();
    assert_eq!(answer(&secrets, "plain").await.unwrap().unwrap().1, "of the file");
}

#[tokio::test]
async fn a_command_that_fails_is_a_fault_and_not_an_absent_secret() {
    let folder = tempfile::tempdir().unwrap();
    let failing = secrets(folder.path(), Some(command(folder.path(), "printf 'value=half'; exit 3")));
    assert!(answer(&failing, "db").await.unwrap_err().contains("exit status: 3"));
    let gone = secrets(folder.path(), Some(folder.path().join("gone")));
    assert!(answer(&gone, "db").await.is_err());
    // Its answer is more than a pipe holds, and it never reads its input.
    let long = secrets(
        folder.path(),
        Some(command(folder.path(), "printf 'value='; head -c 200000 /dev/zero | tr '\\0' x")),
    );
    assert_eq!(answer(&long, "db").await.unwrap().unwrap().1.len(), 200_000);
}

#[tokio::test]
async fn a_command_that_hangs_is_ended_and_may_be_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("echo $$ > '{}'; exec sleep 600", pid.display());
    let mut hanging = secrets(folder.path(), Some(command(folder.path(), &script)));
    hanging.command.as_mut().unwrap().limit = Duration::from_millis(500);
    let error = hanging.resolve(&Sample::tenant("acme"), "db").await.unwrap_err();
    assert!(error.is_temporary() && error.chain().contains("gave no answer"), "{}", error.chain());
    let Ok(pid) = fs::read_to_string(&pid) else { return };
    let process = PathBuf::from("/proc").join(pid.trim());
    contract::cases::until("the command to be gone", || async {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        status.is_empty() || status.contains("State:\tZ")
    })
    .await;
}
