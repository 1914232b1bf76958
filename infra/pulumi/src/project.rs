//! A program's project file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_norway::Value;

/// What is read of Pulumi.yaml.
#[derive(Debug, Clone)]
pub struct Project {
    /// The project's name: the first half of its configuration keys.
    pub name: String,
    /// The language: `yaml`, `nodejs`, `python`, `go`, `dotnet`, `java`.
    pub runtime: String,
    /// The whole file.
    pub file: Value,
    /// Where it is.
    pub path: PathBuf,
    declared: BTreeMap<String, String>,
}

/// Why a program's project file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// There is none.
    #[error(
        "there is no Pulumi.yaml in the program's folder; name the folder that has it as the program's path"
    )]
    Missing,
    /// It can't be read.
    #[error("Pulumi.yaml can't be read: {problem}; correct it and commit")]
    Unreadable {
        /// What the parser says.
        problem: String,
    },
    /// A field is missing.
    #[error("Pulumi.yaml has no {field}; add it and commit")]
    NoField {
        /// The field.
        field: &'static str,
    },
}

/// More is no project file.
const LARGEST: u64 = 1_048_576;

impl Project {
    /// Reads the project file of a folder.
    pub fn read(folder: &Path) -> Result<Project, ProjectError> {
        let names = ["Pulumi.yaml", "Pulumi.yml"];
        let path = names.iter().map(|n| folder.join(n)).find(|p| p.is_file());
        let path = path.ok_or(ProjectError::Missing)?;
        let unreadable = |problem: String| ProjectError::Unreadable { problem };
        let size = std::fs::metadata(&path).map_err(|e| unreadable(e.to_string()))?.len();
        if size > LARGEST {
            return Err(unreadable(format!("it has {size} bytes")));
        }
        let text = std::fs::read_to_string(&path).map_err(|e| unreadable(e.to_string()))?;
        let mut file: Value = serde_norway::from_str(&text).map_err(|e| unreadable(e.to_string()))?;
        // As Pulumi reads it: what `<<` brings counts.
        file.apply_merge().map_err(|e| unreadable(e.to_string()))?;
        let name = file.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(ProjectError::NoField { field: "name" });
        }
        let runtime = match file.get("runtime") {
            Some(Value::String(runtime)) => Some(runtime.clone()),
            Some(runtime) => runtime.get("name").and_then(Value::as_str).map(str::to_owned),
            None => None,
        };
        let runtime = runtime.ok_or(ProjectError::NoField { field: "runtime" })?;
        let mut declared = BTreeMap::new();
        if let Some(Value::Mapping(config)) = file.get("config") {
            for (key, value) in config {
                let kind = value.get("type").and_then(Value::as_str);
                if let (Some(key), Some(kind)) = (key.as_str(), kind) {
                    declared.insert(key.to_owned(), kind.to_ascii_lowercase());
                }
            }
        }
        Ok(Project { name, runtime, file, path, declared })
    }

    /// A key with its project.
    pub fn full_key(&self, key: &str) -> String {
        if key.contains(':') { key.to_owned() } else { format!("{}:{key}", self.name) }
    }

    /// A value as the stack's file must hold it. The YAML host reads a declared string that looks like a number as
    /// a number ("1.10" becomes 1.1) unless it stands in quotes.
    pub fn as_declared(&self, key: &str, value: &str) -> String {
        let bare = key.strip_prefix(&format!("{}:", self.name)).unwrap_or(key);
        let text = self.declared.get(bare).is_some_and(|kind| kind == "string");
        if self.runtime == "yaml" && text && looks_typed(value) {
            return Value::String(value.to_owned()).as_str().map_or_else(String::new, |v| format!("{v:?}"));
        }
        value.to_owned()
    }
}

/// Whether YAML would read a text as something else than a text.
fn looks_typed(value: &str) -> bool {
    !matches!(serde_norway::from_str::<Value>(value), Ok(Value::String(same)) if same == value)
}
