//! Git repositories of tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A repository in a folder of its own.
pub struct Repository {
    folder: tempfile::TempDir,
}

#[expect(
    clippy::unwrap_used,
    clippy::new_without_default,
    reason = "a test whose repository can't be made has failed"
)]
impl Repository {
    /// An empty one.
    pub fn new() -> Repository {
        let folder = tempfile::tempdir().unwrap();
        let this = Repository { folder };
        this.git(&["init", "-q", "-b", "main"]);
        this
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Runs git in it.
    pub fn git(&self, args: &[&str]) -> String {
        let out = Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"])
            .args(args)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    /// Commits one file; the full hash.
    pub fn commit(&self, file: &str, text: &str) -> String {
        let path: &Path = self.folder.path();
        std::fs::create_dir_all(path.join(file).parent().unwrap()).unwrap();
        std::fs::write(path.join(file), text).unwrap();
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "test"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Commits a program to `file`'s folder.
    pub fn program(&self, body: &str) -> String {
        self.commit("app/Pulumi.yaml", &program(body))
    }
}

/// A YAML program.
pub fn program(body: &str) -> String {
    format!("name: app\nruntime: yaml\n{body}")
}
