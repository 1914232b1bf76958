//! What one start of Pulumi works in: a worktree, a private copy of the state, a home and a folder of its own.

use std::fs;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// The file of the state as it may be shown.
pub(crate) const SHOWN: &str = "shown.json";

/// The folder of one start.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// The folder.
    pub root: PathBuf,
}

impl Workspace {
    /// Makes it anew; what an earlier try left goes.
    pub(crate) fn create(root: PathBuf) -> io::Result<Workspace> {
        let this = Workspace { root };
        this.remove()?;
        for folder in [this.root.clone(), this.home(), this.tmp(), this.home().join("plugins")] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Ok(this)
    }

    /// Takes everything away.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn worktree(&self) -> PathBuf {
        self.root.join("worktree")
    }
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }
    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }
    pub(crate) fn config(&self) -> PathBuf {
        self.root.join("stack.yaml")
    }
    pub(crate) fn plan(&self) -> PathBuf {
        self.root.join("plan.json")
    }
    pub(crate) fn backend(&self) -> PathBuf {
        self.root.join("backend")
    }
    /// The state's file in the private backend.
    pub(crate) fn checkpoint(&self, project: &str, stack: &str) -> PathBuf {
        self.backend().join(".pulumi").join("stacks").join(project).join(format!("{stack}.json"))
    }
    /// The state as it may be shown, where it holds what only its runner could mask.
    pub(crate) fn shown(&self) -> PathBuf {
        self.root.join(SHOWN)
    }
    /// Digest of the state when the run had ended: a zombie that writes later is seen by it.
    pub(crate) fn ended(&self) -> PathBuf {
        self.root.join("ended.json")
    }

    /// Puts a state into the private backend.
    pub(crate) fn put_state(&self, project: &str, stack: &str, state: &[u8]) -> io::Result<()> {
        let file = self.checkpoint(project, stack);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        write(&self.backend().join(".pulumi").join("meta.yaml"), b"version: 1\n")?;
        write(&file, state)
    }

    /// Makes installed plugins visible, and this program as the local provider.
    pub(crate) fn link_plugins(
        &self,
        local: Option<&Path>,
        version: &str,
        installed: Option<&Path>,
    ) -> io::Result<()> {
        let plugins = self.home().join("plugins");
        if let Some(local) = local {
            let folder = plugins.join(format!("resource-local-v{version}"));
            fs::create_dir_all(&folder)?;
            symlink(local, folder.join("pulumi-resource-local"))?;
        }
        let Some(entries) = installed.and_then(|i| fs::read_dir(i).ok()) else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with("resource-local-") {
                symlink(entry.path(), plugins.join(name))?;
            }
        }
        Ok(())
    }
}

/// Writes a private file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

/// Bytes of a file that is kept, at most.
const LONGEST: u64 = 512 << 20;

/// A file that a session left, if it is a plain one below `root`: the session's processes may have put anything in its
/// place, such as a link to what is its supervisor's.
pub(crate) fn read(root: &Path, file: &Path) -> Option<Vec<u8>> {
    let folder = fs::canonicalize(file.parent()?).ok()?;
    if !folder.starts_with(fs::canonicalize(root).ok()?) {
        return None;
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(folder.join(file.file_name()?));
    let mut file = file.ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > LONGEST {
        return None;
    }
    let mut bytes = vec![];
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_file_of_its_own_folder_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (root, other) = (folder.path().join("root"), folder.path().join("other"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("secret"), b"x").unwrap();
        fs::write(root.join("a/b/file"), b"kept").unwrap();
        assert_eq!(read(&root, &root.join("a/b/file")).as_deref(), Some(&b"kept"[..]));
        symlink(other.join("secret"), root.join("a/link")).unwrap();
        symlink(&other, root.join("a/folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("a/pipe"), rustix::fs::Mode::from(0o600)).unwrap();
        for odd in ["a/link", "a/folder/secret", "a/pipe", "a/b", "a/absent"] {
            assert_eq!(read(&root, &root.join(odd)), None, "{odd}");
        }
    }
}
