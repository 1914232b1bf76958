//! A repository with a little history, and a source with an empty cache.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use runtime_cloud_git::{Checkout, GitError, GitSource, Limits};
use tempfile::TempDir;

pub struct Stage {
    folder: TempDir,
    pub source: GitSource,
    checkouts: AtomicU32,
}

/// Far enough away for a loaded machine.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

impl Stage {
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = GitSource::new(folder.path().join("caches"), limits);
        let stage = Self { folder, source, checkouts: AtomicU32::new(0) };
        fs::create_dir_all(stage.repo()).unwrap();
        stage.git(&["init", "-q", "-b", "main"]);
        stage.write("app/Pulumi.yaml", "name: app\n");
        stage.write("app/run.sh", "#!/bin/sh\n");
        let script = stage.repo().join("app/run.sh");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        stage.commit("first");
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn repo(&self) -> PathBuf {
        self.path("served/repo")
    }

    pub fn address(&self) -> String {
        self.repo().to_str().unwrap().to_owned()
    }

    pub fn write(&self, file: &str, content: &str) {
        let file = self.repo().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    /// Commits everything and returns the commit.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.head()
    }

    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(&self.repo(), arguments, "")
    }

    pub fn git_with(&self, arguments: &[&str], input: &str) -> String {
        git(&self.repo(), arguments, input)
    }

    pub fn resolve(&self, reference: &str) -> Result<String, GitError> {
        self.source.resolve(&self.address(), reference, None, soon())
    }

    pub fn new_dest(&self) -> PathBuf {
        self.path(&format!("checkout-{}", self.checkouts.fetch_add(1, Ordering::SeqCst)))
    }

    pub fn checkout(&self, commit: &str, path: &str) -> Result<Checkout, GitError> {
        self.checkout_from(&self.address(), commit, path)
    }

    pub fn checkout_from(&self, address: &str, commit: &str, path: &str) -> Result<Checkout, GitError> {
        let dest = self.new_dest();
        let result = self.source.checkout(address, commit, path, &dest, None, soon());
        assert_eq!(dest.exists(), result.is_ok(), "{result:?}");
        result
    }
}

/// Runs Git without any configuration of the machine.
fn git(folder: &Path, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args(["-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
