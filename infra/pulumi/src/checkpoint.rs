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

    /// The same without the secrets that a redactor knows; None where it holds none of them.
    pub(crate) fn without(&self, redactor: &Redactor) -> Option<Vec<u8>> {
        let masked = redactor.value(&self.0);
        (masked != self.0).then(|| masked.to_string().into_bytes())
    }

    /// What may be shown of it: `masked`, if that is this very state with some texts masked.
    pub(crate) fn shown(self, masked: Option<&[u8]>) -> Checkpoint {
        let masked = masked.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        Checkpoint(masked.filter(|masked| hides(&self.0, masked)).unwrap_or(self.0))
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

/// Whether a value is another one, but for texts that are masked.
fn hides(value: &Value, masked: &Value) -> bool {
    match (value, masked) {
        (Value::String(_) | Value::Number(_), Value::String(text)) if text.contains(MASK) => true,
        (Value::Array(values), Value::Array(masked)) => {
            values.len() == masked.len() && values.iter().zip(masked).all(|(v, m)| hides(v, m))
        }
        (Value::Object(values), Value::Object(masked)) => {
            let name_hidden = |name: &String| !masked.contains_key(name);
            let hidden = masked.keys().filter(|name| name.contains(MASK)).count();
            values.keys().filter(|name| name_hidden(name)).count() <= hidden
                && masked.iter().all(|(name, m)| match values.get(name) {
                    Some(value) => hides(value, m),
                    None => name.contains(MASK),
                })
        }
        (value, masked) => value == masked,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(outputs: &Value, inputs: &Value) -> Value {
        json!({"version": 3, "checkpoint": {"latest": {"resources": [
            {"type": "pulumi:pulumi:Stack", "urn": "s", "outputs": outputs},
            {"type": "local:index:File", "urn": "f", "id": "f-1", "inputs": inputs}]}}})
    }

    #[test]
    fn what_only_a_runner_could_mask_is_masked_in_what_is_shown() {
        let (outputs, inputs) = (json!({"key": "a key-of-a-role", "n": 1}), json!({"key-of-a-role": "x"}));
        let bytes = state(&outputs, &inputs).to_string().into_bytes();
        let real = || Checkpoint::parse(&bytes).unwrap();
        let masked = real().without(&Redactor::new(["key-of-a-role"])).unwrap();
        assert_eq!(real().without(&Redactor::new(["something else"])), None);
        let nobody = Redactor::new([]);
        let shown = real().shown(Some(&masked));
        assert_eq!(shown.outputs(&nobody), json!({"key": "a [secret]", "n": 1}));
        assert_eq!(shown.applied(&nobody)[0].inputs, json!({"[secret]": "x"}));
        // What says anything else than the state is not believed.
        for (outputs, inputs) in [
            (json!({"key": "a [secret]", "n": 2}), inputs.clone()),
            (json!({"key": "other", "n": 1}), inputs.clone()),
            (json!({"n": 1}), inputs.clone()),
            (json!({"key": "a [secret]", "n": 1, "more": 1}), inputs.clone()),
        ] {
            let lie = state(&outputs, &inputs).to_string();
            assert_eq!(real().shown(Some(lie.as_bytes())).outputs(&nobody)["key"], "a key-of-a-role");
        }
        assert_eq!(real().shown(Some(b"{")).outputs(&nobody)["n"], 1);
    }
}
