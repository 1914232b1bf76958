//! Pulumi for the tests: the product itself knows how to find, fetch or build it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::Message;
use serde_json::Value;

use crate::cargo::{PRODUCT, Workspace};
use crate::problem::Stop;

/// The folder that holds `pulumi` and `pulumi-language-yaml`, for the tests.
pub const VARIABLE: &str = "RUNTIME_CLOUD_TEST_PULUMI";

const YAML_HOST: &str = "pulumi-language-yaml";

/// Pulumi, and the folders where it finds its language hosts.
#[derive(Debug, PartialEq, Eq)]
pub struct Pulumi {
    /// The program.
    pub program: PathBuf,
    /// The folders.
    pub folders: Vec<PathBuf>,
}

impl Pulumi {
    /// What a test process must be told so that it uses this one.
    pub fn variables(&self) -> Result<Vec<(&'static str, OsString)>, Stop> {
        if let Some(folder) = self.program.parent().filter(|folder| folder.join(YAML_HOST).is_file()) {
            return Ok(vec![(VARIABLE, folder.into())]);
        }
        // Installed apart from its language host: then PATH is what the tests look in.
        let path = env::var_os("PATH").unwrap_or_default();
        let folders =
            self.program.parent().map(Path::to_owned).into_iter().chain(self.folders.iter().cloned());
        let joined = env::join_paths(folders.chain(env::split_paths(&path)))
            .map_err(|error| Stop::new(format!("the folder of Pulumi can't be on PATH: {error}")))?;
        Ok(vec![("PATH", joined)])
    }
}

/// The folder that somebody chose; checked, so that not every test has to fail.
fn chosen() -> Result<Option<Pulumi>, Stop> {
    let Some(folder) = env::var_os(VARIABLE).map(PathBuf::from) else { return Ok(None) };
    if !folder.is_absolute() {
        return Err(Stop::new(format!("{VARIABLE} is {}, but must be an absolute path", folder.display())));
    }
    match ["pulumi", YAML_HOST].into_iter().find(|name| !folder.join(name).is_file()) {
        None => Ok(Some(Pulumi { program: folder.join("pulumi"), folders: vec![folder] })),
        Some(name) => {
            let folder = folder.display();
            Err(Stop::new(format!(
                "{VARIABLE} is {folder}, but {name} is not there; unset it to have Pulumi fetched"
            )))
        }
    }
}

/// Pulumi, chosen, found, fetched or built. The product's binary does all but the first.
pub fn get(product: &Path) -> Result<Pulumi, Stop> {
    if let Some(pulumi) = chosen()? {
        return Ok(pulumi);
    }
    eprintln!("getting Pulumi ready; where it must be built this takes some minutes, once ...");
    let output = Command::new(product)
        .arg("tools")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .map_err(Stop::of(product.display()))?;
    if !output.status.success() {
        return Err(Stop::new(format!(
            "`{PRODUCT} tools` ended with {}; see above, or set {VARIABLE} to a folder with `pulumi` and `{YAML_HOST}`",
            output.status
        )));
    }
    read(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| Stop::new(format!("`{PRODUCT} tools` did not say where Pulumi is")))
}

/// The last line that `tools` prints: `{"pulumi": PATH, "dirs": [PATH, ..], ..}`.
fn read(said: &str) -> Option<Pulumi> {
    let told: Value = serde_json::from_str(said.lines().rfind(|line| !line.trim().is_empty())?).ok()?;
    let dirs = told.get("dirs")?.as_array()?;
    Some(Pulumi {
        program: told.get("pulumi")?.as_str()?.into(),
        folders: dirs.iter().filter_map(Value::as_str).map(PathBuf::from).collect(),
    })
}

/// Builds with cargo and gives back where the product's binary is.
pub fn build(workspace: &Workspace, what: &[&str]) -> Result<PathBuf, Stop> {
    let output = workspace
        .resolving("build")
        .args(what)
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .map_err(Stop::of("cargo build"))?;
    if !output.status.success() {
        return Err(Stop::new("the workspace does not build; see above"));
    }
    let binary = |message| match message {
        Message::CompilerArtifact(made)
            if made.target.name == PRODUCT && made.target.is_bin() && !made.profile.test =>
        {
            made.executable
        }
        _ => None,
    };
    let mut messages = Message::parse_stream(output.stdout.as_slice()).map_while(Result::ok);
    let found = messages.find_map(binary);
    found.map(Into::into).ok_or_else(|| Stop::new(format!("cargo built no {PRODUCT}")))
}

/// `cargo xtask tools`: gets Pulumi and says where it is.
pub fn show() -> Result<u8, Stop> {
    let pulumi = match chosen()? {
        Some(pulumi) => pulumi,
        None => {
            let package = ["--package", "runtime-cloud-host", "--bin", PRODUCT];
            get(&build(&Workspace::find()?, &package)?)?
        }
    };
    println!("pulumi is {}", pulumi.program.display());
    for (name, value) in pulumi.variables()? {
        println!("for tests that are run without xtask: export {name}={}", value.to_string_lossy());
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read() {
        let said =
            "some words\n{\"pulumi\":\"/c/bin/pulumi\",\"dirs\":[\"/c/bin\"],\"version\":\"3.1.0\"}\n\n";
        let expected = Pulumi { program: "/c/bin/pulumi".into(), folders: vec!["/c/bin".into()] };
        assert_eq!(read(said), Some(expected));
        assert_eq!(read(""), None);
        assert_eq!(read("nothing found"), None);
        assert_eq!(read("{\"pulumi\":7,\"dirs\":[]}"), None);
    }

    #[test]
    fn one_folder_is_told_by_its_variable_and_two_by_path() {
        let together = tempfile::tempdir().unwrap();
        std::fs::write(together.path().join(YAML_HOST), "").unwrap();
        let program = together.path().join("pulumi");
        let pulumi = Pulumi { program, folders: vec![together.path().to_owned()] };
        assert_eq!(pulumi.variables().unwrap(), [(VARIABLE, together.path().into())]);

        let apart = Pulumi { program: "/a/pulumi".into(), folders: vec!["/b".into()] };
        let variables = apart.variables().unwrap();
        let [("PATH", path)] = variables.as_slice() else { panic!("{variables:?}") };
        assert!(path.to_string_lossy().starts_with("/a:/b:"), "{}", path.display());
    }
}
