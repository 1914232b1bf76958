//! The state file of Pulumi's own backend.

use domain::receipt::AppliedResource;
use serde_json::{Map, Value};

use crate::redact::{MASK, Redactor};

/// The key under which Pulumi marks a value, and the mark of a secret.
pub(crate) const SIGNATURE: &str = "4dabf18193072939515e22adb298388d";
const SECRET: &str = "1b47061264138c4ac30d75fd1eb44270";

/// A state.
#[derive(Debug)]
pub(crate) struct Checkpoint(Value);

impl Checkpoint {
    /// The state of a stack that was never applied.
    pub(crate) fn empty(project: &str, stack: &str) -> Vec<u8> {
        let stack = format!("organization/{project}/{stack}");
        serde_json::json!({ "version": 3, "checkpoint": { "stack": stack, "latest": null } })
            .to_string()
            .into_bytes()
    }

    /// Reads a state.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Checkpoint, String> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|e| format!("the state can't be read: {e}"))?;
        match value.get("version").and_then(Value::as_u64) {
            Some(3) => Ok(Checkpoint(value)),
            other => Err(format!("the state is of version {other:?}; this runner knows version 3")),
        }
    }

    fn latest(&self) -> Option<&Value> {
        self.0.get("checkpoint")?.get("latest")
    }

    /// The salt of its encryption: the stack's configuration needs it too.
    pub(crate) fn salt(&self) -> Option<&str> {
        self.latest()?.get("secrets_providers")?.get("state")?.get("salt")?.as_str()
    }

    /// Whether it holds operations that never ended (Rule 22).
    pub(crate) fn has_pending_operations(&self) -> bool {
        let pending = self.latest().and_then(|l| l.get("pending_operations"));
        pending.and_then(Value::as_array).is_some_and(|p| !p.is_empty())
    }

    fn resources(&self) -> impl Iterator<Item = &Value> {
        self.latest().and_then(|l| l.get("resources")).and_then(Value::as_array).into_iter().flatten()
    }

    /// The stack's outputs, secret ones masked.
    pub(crate) fn outputs(&self, redactor: &Redactor) -> Value {
        let stack = self.resources().find(|r| text(r, "type") == "pulumi:pulumi:Stack");
        match stack.and_then(|s| s.get("outputs")) {
            Some(outputs) => redactor.value(&masked(outputs)),
            None => Value::Object(Map::new()),
        }
    }

    /// Every resource but the stack and the providers, with its declared inputs, secret ones masked.
    pub(crate) fn applied(&self, redactor: &Redactor) -> Vec<AppliedResource> {
        let own = |r: &&Value| {
            let kind = text(r, "type");
            kind != "pulumi:pulumi:Stack" && !kind.starts_with("pulumi:providers:")
        };
        self.resources()
            .filter(own)
            .map(|r| AppliedResource {
                urn: text(r, "urn").to_owned(),
                resource_type: text(r, "type").to_owned(),
                id: r.get("id").and_then(Value::as_str).map(|id| redactor.text(id)),
                inputs: r.get("inputs").map_or(Value::Null, |i| redactor.value(&masked(i))),
            })
            .collect()
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A value whose secrets, as Pulumi marks them, are masked.
pub(crate) fn masked(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.get(SIGNATURE).and_then(Value::as_str) == Some(SECRET) => {
            Value::String(MASK.to_owned())
        }
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), masked(v))).collect()),
        Value::Array(items) => Value::Array(items.iter().map(masked).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
