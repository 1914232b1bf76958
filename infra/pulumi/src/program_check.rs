//! Programs are hostile input before any approval, in a preview already (Rule 23). What can be seen in a YAML
//! program without running it is refused here: files outside the worktree, and plugins that it brings itself.

use std::path::Path;

use serde_norway::Value;

use crate::project::{Project, ProjectError};

/// Why a program isn't started.
#[derive(Debug, thiserror::Error)]
pub enum ProgramRefusal {
    /// Its project file.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// It reads a file that isn't its own.
    #[error(
        "{function} reads {path:?}, which is not a plain path inside the program's folder; commit the file beside the program and name it there"
    )]
    OutsideFile {
        /// The function.
        function: String,
        /// What it reads.
        path: String,
    },
    /// It brings its own binaries.
    #[error(
        "Pulumi.yaml brings its own plugins (`plugins`); remove the section: plugins are installed by the platform"
    )]
    OwnPlugins,
    /// It overrides what the runner sets.
    #[error("Pulumi.yaml sets {field}, which Runtime Cloud sets itself; remove it and commit")]
    Reserved {
        /// The field.
        field: &'static str,
    },
    /// Its language host isn't there.
    #[error(
        "the program's runtime is {runtime:?}, whose language host is not installed beside Pulumi; install a full Pulumi, or use runtime: yaml"
    )]
    NoLanguageHost {
        /// The runtime.
        runtime: String,
    },
}

const READERS: [&str; 4] = ["fn::readfile", "fn::fileasset", "fn::filearchive", "fn::remoteasset"];

/// Reads a program's project and refuses what must not start.
pub fn check_program(folder: &Path) -> Result<Project, ProgramRefusal> {
    let project = Project::read(folder)?;
    if project.file.get("plugins").is_some() {
        return Err(ProgramRefusal::OwnPlugins);
    }
    for field in ["backend", "main", "stackConfigDir", "options"] {
        if project.file.get(field).is_some() {
            return Err(ProgramRefusal::Reserved { field });
        }
    }
    if project.runtime == "yaml" {
        walk(&project.file)?;
        // The YAML host reads a Main.yaml beside the project file too.
        for name in ["Main.yaml", "Main.yml", "main.yaml", "main.yml"] {
            if let Ok(text) = std::fs::read_to_string(folder.join(name)) {
                let file: Value = serde_norway::from_str(&text)
                    .map_err(|e| ProjectError::Unreadable { problem: format!("{name}: {e}") })?;
                walk(&file)?;
            }
        }
    }
    Ok(project)
}

fn walk(value: &Value) -> Result<(), ProgramRefusal> {
    match value {
        Value::Mapping(map) => {
            for (key, inner) in map {
                if let Some(name) = key.as_str()
                    && READERS.contains(&name.to_ascii_lowercase().as_str())
                {
                    inside(name, inner)?;
                }
                walk(inner)?;
            }
            Ok(())
        }
        Value::Sequence(items) => items.iter().try_for_each(walk),
        Value::Tagged(tagged) => walk(&tagged.value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// A literal relative path without `..` and without an expression; the checkout has refused links that lead out.
fn inside(function: &str, argument: &Value) -> Result<(), ProgramRefusal> {
    let path = argument.as_str().unwrap_or_default();
    let leaves = path.is_empty()
        || path.contains("${")
        || path.contains("://")
        || path.contains('\0')
        || Path::new(path)
            .components()
            .any(|c| !matches!(c, std::path::Component::Normal(_) | std::path::Component::CurDir));
    if leaves {
        let path = if path.is_empty() { format!("{argument:?}") } else { path.to_owned() };
        return Err(ProgramRefusal::OutsideFile { function: function.to_owned(), path });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Project, ProgramRefusal> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Pulumi.yaml"), text).unwrap();
        check_program(folder.path())
    }

    #[test]
    fn files_outside_the_program_are_refused() {
        for path in
            ["/proc/self/environ", "../../secret", "a/../../b", "${pulumi.cwd}/x", "file:///etc/passwd", ""]
        {
            for function in ["fn::readFile", "Fn::ReadFile", "fn::fileAsset", "fn::fileArchive"] {
                let text =
                    format!("name: p\nruntime: yaml\noutputs:\n  x:\n    - {{{function}: {path:?}}}\n");
                let refused = check(&text).unwrap_err();
                assert!(
                    matches!(refused, ProgramRefusal::OutsideFile { .. }),
                    "{function} {path}: {refused}"
                );
            }
        }
        check("name: p\nruntime: yaml\noutputs:\n  x: {fn::readFile: ./files/motd.txt}\n").unwrap();
    }

    #[test]
    fn programs_that_bring_plugins_or_a_backend_are_refused() {
        let plugins =
            check("name: p\nruntime: yaml\nplugins: {providers: [{name: x, path: bin}]}\n").unwrap_err();
        assert!(matches!(plugins, ProgramRefusal::OwnPlugins));
        let backend = check("name: p\nruntime: yaml\nbackend: {url: 's3://other'}\n").unwrap_err();
        assert!(backend.to_string().contains("backend"), "{backend}");
    }

    #[test]
    fn a_string_that_looks_like_a_number_stays_a_string() {
        let project =
            check("name: p\nruntime: yaml\nconfig: {s: {type: string}, n: {type: integer}}\n").unwrap();
        assert_eq!(project.as_declared("s", "1.10"), "\"1.10\"");
        assert_eq!(project.as_declared("p:s", "true"), "\"true\"");
        assert_eq!(project.as_declared("s", "plain"), "plain");
        assert_eq!(project.as_declared("n", "3"), "3");
    }
}
