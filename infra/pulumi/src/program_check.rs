//! Programs are hostile input before any approval, in a preview already (Rule 23). What can be seen in a YAML
//! program without running it is refused here: files outside the worktree, and plugins that it brings itself.

use std::path::Path;

use serde::Deserialize;
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
    /// It reads something that isn't on the web by a function for the web.
    #[error(
        "{function} reads {url:?}; it may only read what begins with https:// or http://: commit the file beside the program and use fn::fileAsset or fn::fileArchive"
    )]
    NotRemote {
        /// The function.
        function: String,
        /// What it reads.
        url: String,
    },
    /// It brings its own binaries.
    #[error(
        "{place} has {field}, by which a program brings code or plugins of its own; remove it and commit: plugins are installed by the platform"
    )]
    OwnCode {
        /// The file.
        place: String,
        /// The field.
        field: String,
    },
    /// Pulumi would read another file than the one that is checked.
    #[error(
        "{file} stands beside Pulumi.yaml, and Pulumi would read it as well; remove one of them and commit"
    )]
    AnotherFile {
        /// The file.
        file: &'static str,
    },
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

const READERS: [&str; 3] = ["fn::readfile", "fn::fileasset", "fn::filearchive"];
const REMOTE_READERS: [&str; 2] = ["fn::remoteasset", "fn::remotearchive"];
/// How the engine tells assets and secrets from plain objects: who writes it by hand makes an asset of any file.
const ENGINE_MARK: &str = crate::checkpoint::SIGNATURE;

/// Reads a program's project and refuses what must not start.
pub fn check_program(folder: &Path) -> Result<Project, ProgramRefusal> {
    let project = Project::read(folder)?;
    let own =
        |field: &str| ProgramRefusal::OwnCode { place: "Pulumi.yaml".to_owned(), field: field.to_owned() };
    // Pulumi takes the first of these that is there.
    for file in ["Pulumi.json", "Pulumi.yml", "PulumiPlugin.json", "PulumiPlugin.yaml", "PulumiPlugin.yml"] {
        if folder.join(file).exists() && project.path != folder.join(file) {
            return Err(ProgramRefusal::AnotherFile { file });
        }
    }
    if project.file.get("plugins").is_some() {
        return Err(own("plugins"));
    }
    for field in ["backend", "main", "stackConfigDir", "options"] {
        if project.file.get(field).is_some() {
            return Err(ProgramRefusal::Reserved { field });
        }
    }
    if project.file.get("config").is_some_and(Value::is_string) {
        return Err(ProgramRefusal::Reserved { field: "config as the name of a folder" });
    }
    // Pulumi makes a file name of it.
    if !project.runtime.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        return Err(own("runtime, which is no plain name"));
    }
    packages(&project.file)?;
    if project.runtime == "yaml" {
        // The only option that there is names a program to run.
        if project.file.get("runtime").and_then(|r| r.get("options")).is_some_and(|o| !o.is_null()) {
            return Err(own("runtime.options"));
        }
        walk(&project.file)?;
        // The YAML host reads these before the project file.
        for name in ["Main.json", "Main.yaml", "Main.yml", "main.yaml", "main.yml"] {
            if let Ok(text) = std::fs::read_to_string(folder.join(name)) {
                let file: Value = serde_norway::from_str(&text)
                    .map_err(|e| ProjectError::Unreadable { problem: format!("{name}: {e}") })?;
                walk(&file)?;
            }
        }
        lock_files(folder, folder)?;
    }
    Ok(project)
}

/// Packages by name and version; never by a path, an address or parameters, which bring binaries.
fn packages(file: &Value) -> Result<(), ProgramRefusal> {
    let Some(packages) = file.get("packages").filter(|p| !p.is_null()) else { return Ok(()) };
    let refuse = |name: &str| ProgramRefusal::OwnCode {
        place: "Pulumi.yaml".to_owned(),
        field: format!("packages.{name} that is no plain name and version"),
    };
    let Value::Mapping(packages) = packages else { return Err(refuse("")) };
    for (name, package) in packages {
        let name = name.as_str().unwrap_or("?");
        let plain = match package {
            Value::String(source) => is_plain(source),
            Value::Mapping(fields) => fields.iter().all(|(field, value)| {
                matches!(field.as_str(), Some("source" | "version")) && value.as_str().is_some_and(is_plain)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Sequence(_) | Value::Tagged(_) => false,
        };
        if !plain {
            return Err(refuse(name));
        }
    }
    Ok(())
}

/// `name`, `name@version` or a version: no path and no address.
fn is_plain(text: &str) -> bool {
    let (name, version) = text.split_once('@').unwrap_or((text, "0"));
    let plain = |part: &str, more: &[u8]| {
        part.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    let is_version = |part: &str| plain(part, b".-+");
    (plain(name, b"-_")
        || (text == name && is_version(name) && name.starts_with(|c: char| c.is_ascii_digit())))
        && is_version(version)
}

/// The YAML host takes every YAML file below the program's folder that says so for a package's lock file.
fn lock_files(root: &Path, folder: &Path) -> Result<(), ProgramRefusal> {
    let unreadable = |e: std::io::Error| ProjectError::Unreadable { problem: format!("its folder: {e}") };
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() && !path.is_symlink() {
            lock_files(root, &path)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let bytes = std::fs::read(&path).map_err(unreadable)?;
            lock_file(&place, &String::from_utf8_lossy(&bytes))?;
        }
    }
    Ok(())
}

fn lock_file(place: &str, text: &str) -> Result<(), ProgramRefusal> {
    let own = |field: &str| ProgramRefusal::OwnCode { place: place.to_owned(), field: field.to_owned() };
    // The first document counts, as for Pulumi.
    let first = serde_norway::Deserializer::from_str(text).next().map(Value::deserialize);
    let file = match first {
        Some(Ok(mut file)) => {
            let merged = file.apply_merge().is_ok();
            Some(file).filter(|_| merged)
        }
        Some(Err(_)) | None => None,
    };
    let Some(file) = file else {
        // Other files may be what they want; a lock file that only Pulumi can read is refused.
        let hidden = ["packageDeclarationVersion", "\\x", "\\u", "\\U"].iter().any(|s| text.contains(s));
        return if hidden { Err(own("a form that can't be read")) } else { Ok(()) };
    };
    if file.get("packageDeclarationVersion").is_none() {
        return Ok(());
    }
    for field in ["downloadUrl", "parameterization"] {
        if file.get(field).is_some_and(|value| !value.is_null()) {
            return Err(own(field));
        }
    }
    let plain = |field: &str| file.get(field).is_none_or(|v| v.as_str().is_some_and(is_plain));
    if plain("name") && plain("version") { Ok(()) } else { Err(own("a name or version that is none")) }
}

fn walk(value: &Value) -> Result<(), ProgramRefusal> {
    let own =
        |field: &str| ProgramRefusal::OwnCode { place: "the program".to_owned(), field: field.to_owned() };
    match value {
        Value::Mapping(map) => {
            for (key, inner) in map {
                let name = key.as_str().unwrap_or_default();
                let lower = name.to_ascii_lowercase();
                if READERS.contains(&lower.as_str()) {
                    inside(name, inner)?;
                }
                if REMOTE_READERS.contains(&lower.as_str()) {
                    remote(name, inner)?;
                }
                if lower == "plugindownloadurl" {
                    return Err(own(name));
                }
                if name == ENGINE_MARK {
                    return Err(own("a mark of the engine's own"));
                }
                walk(key)?;
                walk(inner)?;
            }
            Ok(())
        }
        Value::Sequence(items) => items.iter().try_for_each(walk),
        Value::Tagged(tagged) => walk(&tagged.value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// A literal address whose beginning says that it is on the web.
fn remote(function: &str, argument: &Value) -> Result<(), ProgramRefusal> {
    let url = argument.as_str().unwrap_or_default();
    let lower = url.to_ascii_lowercase();
    if ["https://", "http://"].iter().any(|scheme| lower.starts_with(scheme)) {
        return Ok(());
    }
    let url = if url.is_empty() { format!("{argument:?}") } else { url.to_owned() };
    Err(ProgramRefusal::NotRemote { function: function.to_owned(), url })
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
        assert!(plugins.to_string().contains("plugins"), "{plugins}");
        let backend = check("name: p\nruntime: yaml\nbackend: {url: 's3://other'}\n").unwrap_err();
        assert!(backend.to_string().contains("backend"), "{backend}");
    }

    #[test]
    fn whatever_brings_code_is_refused_by_name() {
        let refused = [
            ("runtime: {name: yaml, options: {compiler: ./run}}\n", "runtime.options"),
            ("runtime: /run\n", "runtime"),
            ("runtime: yaml\npackages: {x: ./plugin}\n", "packages.x"),
            ("runtime: yaml\npackages: {x: /plugin}\n", "packages.x"),
            ("runtime: yaml\npackages: {x: 'https://a.example/x'}\n", "packages.x"),
            ("runtime: yaml\npackages: {x: github.com/a/x@v1}\n", "packages.x"),
            ("runtime: yaml\npackages: {x: {source: ../x, version: 1.0.0}}\n", "packages.x"),
            ("runtime: yaml\npackages: {x: {source: terraform-provider, parameters: [./x]}}\n", "packages.x"),
            ("runtime: yaml\n<<: {plugins: {providers: []}}\n", "plugins"),
            ("runtime: yaml\nb: &b {plugins: {}}\n<<: *b\n", "plugins"),
            ("runtime: yaml\nconfig: elsewhere\n", "config"),
            (
                "runtime: yaml\nresources: {a: {type: x:y:Z, options: {PluginDownloadURL: 'http://a'}}}\n",
                "PluginDownloadURL",
            ),
            (
                "runtime: yaml\noutputs: {a: {4dabf18193072939515e22adb298388d: x, path: /etc/passwd}}\n",
                "mark of the engine",
            ),
        ];
        for (text, field) in refused {
            let refused = check(&format!("name: p\n{text}")).unwrap_err();
            assert!(
                matches!(refused, ProgramRefusal::OwnCode { .. } | ProgramRefusal::Reserved { .. }),
                "{text}"
            );
            assert!(refused.to_string().contains(field), "{text}: {refused}");
        }
        for packages in
            ["{}", "{x: random}", "{x: random@4.1.2-alpha.1}", "{x: {source: random, version: 4.1.2}}"]
        {
            check(&format!("name: p\nruntime: yaml\npackages: {packages}\n")).unwrap();
        }
        check("name: p\nruntime: {name: yaml}\n").unwrap();
    }

    #[test]
    fn only_the_web_is_remote() {
        for function in ["fn::remoteAsset", "fn::RemoteArchive"] {
            for url in ["file:///etc/passwd", "FILE:///etc", "/etc/passwd", "${u}", "ftp://a/b", "x.zip"] {
                let text = format!(
                    "name: p\nruntime: yaml\noutputs:\n  x: {{fn::assetArchive: {{a: {{{function}: '{url}'}}}}}}\n"
                );
                let refused = check(&text).unwrap_err();
                assert!(matches!(refused, ProgramRefusal::NotRemote { .. }), "{url}: {refused}");
            }
            check(&format!(
                "name: p\nruntime: yaml\noutputs: {{x: {{{function}: 'https://a.example/b'}}}}\n"
            ))
            .unwrap();
        }
    }

    #[test]
    fn files_beside_the_project_that_pulumi_reads_are_checked_too() {
        let check = |file: &str, text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("Pulumi.yaml"), "name: p\nruntime: yaml\n").unwrap();
            let file = folder.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
            check_program(folder.path())
        };
        let lock = "packageDeclarationVersion: 1\nname: random\n";
        let refused = [
            ("Pulumi.json", "{}".to_owned(), "Pulumi.json"),
            ("PulumiPlugin.yaml", "runtime: yaml".to_owned(), "PulumiPlugin.yaml"),
            ("Main.json", r#"{"outputs": {"x": {"fn::readFile": "/etc/passwd"}}}"#.to_owned(), "/etc/passwd"),
            ("sdks/x.yaml", format!("{lock}downloadUrl: https://a.example\n"), "downloadUrl"),
            ("any/where/x.yaml", format!("{lock}parameterization: {{name: x}}\n"), "parameterization"),
            ("x.yaml", format!("{lock}version: ../x\n---\na: b\n"), "version"),
            ("x.yaml", format!("{lock}}}"), "x.yaml"),
        ];
        for (file, text, named) in refused {
            let refused = check(file, &text).unwrap_err();
            assert!(refused.to_string().contains(named), "{file}: {refused}");
        }
        check("sdks/x.yaml", lock).unwrap();
        check("chart/x.yaml", "{{ a.template }}: [").unwrap();
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
