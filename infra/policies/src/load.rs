//! Reads policies, names them by their @id and checks them against the schema.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use cedar_policy::ffi::DetailedError;
use cedar_policy::{Policy, PolicyId, PolicySet, Schema, ValidationMode, Validator};

use crate::error::PolicyError;

const SCHEMA: &str = include_str!("../runtime-cloud.cedarschema");
const DEFAULT: &str = include_str!("../default.cedar");

/// A file of policies.
struct SourceFile {
    name: String,
    text: String,
}

impl SourceFile {
    fn line(&self, offset: usize) -> usize {
        self.text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1)
    }

    fn line_of(&self, policy: &Policy) -> usize {
        self.line(policy.as_ref().loc().map_or(0, |loc| loc.start()))
    }

    fn line_in(&self, error: &DetailedError) -> usize {
        self.line(error.source_locations.first().map_or(0, |label| label.loc.start))
    }
}

/// The schema and every policy: the default ones, and those of the folder's *.cedar files.
pub(crate) fn load(extra: Option<&Path>) -> Result<(Schema, PolicySet), PolicyError> {
    let (schema, _) =
        Schema::from_cedarschema_str(SCHEMA).map_err(|e| PolicyError::Schema { problem: e.to_string() })?;
    let mut files = vec![SourceFile { name: "default.cedar".to_owned(), text: DEFAULT.to_owned() }];
    if let Some(folder) = extra {
        files.extend(read(folder)?);
    }
    let mut set = PolicySet::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (place, file) in files.iter().enumerate() {
        for (id, policy) in parse(file)? {
            if let Some(other) = places.get(&id).and_then(|other| files.get(*other)) {
                return Err(duplicate(file, &policy, id, other.name.clone()));
            }
            set.add(policy.new_id(PolicyId::new(&id))).map_err(|e| PolicyError::Syntax {
                file: file.name.clone(),
                line: file.line_of(&policy),
                problem: e.to_string(),
            })?;
            places.insert(id, place);
        }
    }
    check(&schema, &set, |id| places.get(id).and_then(|place| files.get(*place)))?;
    Ok((schema, set))
}

fn read(folder: &Path) -> Result<Vec<SourceFile>, PolicyError> {
    let at = |source| PolicyError::Unreadable { path: folder.to_owned(), source };
    let mut paths = vec![];
    for entry in fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension().is_some_and(|e| e == "cedar") {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path: std::path::PathBuf| match fs::read_to_string(&path) {
        Ok(text) => Ok(SourceFile { name: path.display().to_string(), text }),
        Err(source) => Err(PolicyError::Unreadable { path, source }),
    };
    paths.into_iter().map(read).collect()
}

/// The policies of a file in their order, each with its name.
fn parse(file: &SourceFile) -> Result<Vec<(String, Policy)>, PolicyError> {
    let set = PolicySet::from_str(&file.text).map_err(|e| {
        let detailed = DetailedError::from(&e);
        PolicyError::Syntax {
            file: file.name.clone(),
            line: file.line_in(&detailed),
            problem: detailed.message,
        }
    })?;
    if let Some(template) = set.templates().next() {
        return Err(PolicyError::Template { file: file.name.clone(), id: template.id().to_string() });
    }
    let mut policies: Vec<&Policy> = set.policies().collect();
    policies.sort_by_key(|p| file.line_of(p));
    let mut named: Vec<(String, Policy)> = vec![];
    for policy in policies {
        let Some(id) = policy.annotation("id").filter(|id| !id.trim().is_empty()) else {
            return Err(PolicyError::Unnamed { file: file.name.clone(), line: file.line_of(policy) });
        };
        if named.iter().any(|(other, _)| other == id) {
            return Err(duplicate(file, policy, id.to_owned(), file.name.clone()));
        }
        named.push((id.to_owned(), policy.clone()));
    }
    Ok(named)
}

fn duplicate(file: &SourceFile, policy: &Policy, id: String, other: String) -> PolicyError {
    PolicyError::Duplicate { file: file.name.clone(), line: file.line_of(policy), id, other }
}

/// Warnings are refused too: a policy that can never apply is a misspelt one.
fn check<'a>(
    schema: &Schema,
    set: &PolicySet,
    file_of: impl Fn(&str) -> Option<&'a SourceFile>,
) -> Result<(), PolicyError> {
    let result = Validator::new(schema.clone()).validate(set, ValidationMode::Strict);
    let errors = result.validation_errors().map(|e| (e.policy_id().to_string(), DetailedError::from(e)));
    let warnings = result.validation_warnings().map(|w| (w.policy_id().to_string(), DetailedError::from(w)));
    let Some((id, detailed)) = errors.chain(warnings).next() else { return Ok(()) };
    let (file, line) = match file_of(&id) {
        Some(file) => (file.name.clone(), file.line_in(&detailed)),
        None => ("the policies".to_owned(), 1),
    };
    let help = detailed.help.map(|help| format!(" ({help})")).unwrap_or_default();
    Err(PolicyError::Invalid { file, line, id, problem: format!("{}{help}", detailed.message) })
}
