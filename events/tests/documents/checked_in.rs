//! What is checked in is what the code makes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use runtime_cloud_events::Envelope;
use schemars::schema_for;
use serde::Serialize;
use serde_json::Value;

use crate::samples::all;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Compares, or writes where it was asked to.
fn same(folder_name: &str, file: &str, document: &impl Serialize) {
    let path = folder(folder_name).join(file);
    let made = serde_json::to_string_pretty(&sorted(serde_json::to_value(document).unwrap())).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        fs::create_dir_all(folder(folder_name)).unwrap();
        fs::write(&path, made).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "{} is not what the code makes: run with UPDATE_DOCUMENTS=1", path.display());
}

/// Keys in their order, whatever else in the build decides on the order of a map.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<String, Value> = map.into_iter().collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn only(folder_name: &str, expected: &BTreeSet<String>) {
    let found = fs::read_dir(folder(folder_name)).unwrap();
    let found: BTreeSet<String> = found.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(&found, expected, "{folder_name} holds other files");
}

#[test]
fn schemas_are_what_the_code_makes() {
    let mut files = BTreeSet::from(["envelope.json".to_owned()]);
    same("schemas", "envelope.json", &schema_for!(Envelope));
    for sample in all() {
        same("schemas", &sample.file(), &sample.schema);
        files.insert(sample.file());
    }
    only("schemas", &files);
}

#[test]
fn samples_are_what_the_code_makes() {
    let mut files = BTreeSet::new();
    for sample in all() {
        same("samples", &sample.file(), &sample.envelope);
        files.insert(sample.file());
    }
    assert_eq!(files.len(), 18, "two events share a file");
    only("samples", &files);
}
