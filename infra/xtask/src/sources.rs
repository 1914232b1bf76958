//! What the sources themselves must keep to, beyond what the compiler and clippy see.

mod documents;
mod lists_only;
mod names;
mod size;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::problem::{Problem, Stop};

/// A text file of the workspace.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where, from the workspace's folder.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}

/// What the checks say.
#[derive(Debug, Default)]
pub struct Findings {
    /// What must be corrected.
    pub problems: Vec<Problem>,
    /// What soon will have to be.
    pub warnings: Vec<Problem>,
}

/// Files that are larger are no sources.
const LARGEST: u64 = 1024 * 1024;

/// Every text file below a folder, except what was built and what Git keeps.
pub fn read(root: &Path) -> Result<Vec<Source>, Stop> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Stop::of(folder.display()))? {
            let entry = entry.map_err(Stop::of(folder.display()))?;
            let (path, name) = (entry.path(), entry.file_name());
            // A link leads to a file that is read where it is, or out of the workspace.
            let kind = entry.file_type().map_err(Stop::of(path.display()))?;
            if kind.is_dir() && name != "target" && name != ".git" && !path.join("CACHEDIR.TAG").exists() {
                folders.push(path);
            } else if kind.is_file() && entry.metadata().is_ok_and(|about| about.len() <= LARGEST) {
                let Ok(text) = fs::read_to_string(&path) else { continue };
                let path = path.strip_prefix(root).unwrap_or(&path).to_owned();
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}

/// All checks on all files of the workspace whose folder is `root`.
pub fn check(root: &Path, sources: &[Source]) -> Findings {
    let mut findings = Findings::default();
    let paths: BTreeSet<&Path> = sources.iter().flat_map(|source| source.path.ancestors()).collect();
    for source in sources {
        if source.path.extension().is_some_and(|extension| extension == "md") {
            documents::check(source, &paths, &mut findings);
        }
        words::check(root, source, &mut findings);
        if source.path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        size::check(source, &mut findings);
        match syn::parse_file(&source.text) {
            Ok(parsed) => {
                names::check(source, &parsed, &mut findings);
                lists_only::check(source, &parsed, &mut findings);
            }
            Err(error) => {
                let line = error.span().start().line;
                let what = format!("this is no Rust: {error}");
                findings.problems.push(Problem::new(&source.path, line, what, "correct the syntax"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_and_what_is_no_text_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        put("src/a.rs", b"fn a() {}");
        put(".ci/run", b"true");
        put("target/debug/b.rs", b"");
        put("x/target/c.rs", b"");
        put(".git/config", b"");
        put("elsewhere/CACHEDIR.TAG", b"");
        put("elsewhere/d.rs", b"");
        put("picture.png", &[0x89, b'P', 0xff]);
        put("large.json", &vec![b' '; 1024 * 1024 + 1]);
        std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        let paths: Vec<PathBuf> =
            read(folder.path()).unwrap().into_iter().map(|source| source.path).collect();
        assert_eq!(paths, [Path::new(".ci/run"), Path::new("src/a.rs")]);
    }

    #[test]
    fn what_does_not_parse_is_told_with_its_line() {
        let source = Source { path: "src/a.rs".into(), text: "fn a() {}\nfn fn\n".into() };
        let problems = check(Path::new("/somewhere/else"), &[source]).problems;
        assert!(matches!(problems.as_slice(), [one] if one.line == 2), "{problems:?}");
    }
}
