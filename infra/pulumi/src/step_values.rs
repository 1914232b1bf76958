//! The values of a plan's steps, for whoever reads it: what is made, and what a changed property was and will be.

use domain::bounds;
use domain::plan::{StepOp, StepValue};
use serde_json::Value;

use crate::checkpoint::masked;
use crate::redact::Redactor;

/// Bytes of one value.
const VALUE: usize = 1024;
/// Bytes of all values of a step.
const STEP: usize = 16 * 1024;

/// How Pulumi writes a value that is only known once it is made.
const UNKNOWN: [&str; 7] = [
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
    "030794c1-ac77-496b-92df-f27374a8bd58",
    "e48ece36-62e2-4504-bad9-02848725956a",
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
];

/// The inputs of what is made, and old and new value of each path that changes.
pub(crate) fn of(
    op: StepOp,
    old: Option<&Value>,
    new: Option<&Value>,
    changed: &[String],
    redactor: &Redactor,
) -> Vec<StepValue> {
    let paths = match op {
        StepOp::Create | StepOp::Import | StepOp::Read => keys(new),
        StepOp::Update | StepOp::Replace if changed.is_empty() => differing(old, new),
        StepOp::Update | StepOp::Replace => changed.to_vec(),
        StepOp::Delete => vec![],
    };
    let old = old.filter(|_| matches!(op, StepOp::Update | StepOp::Replace));
    let mut values = vec![];
    let mut bytes = 0;
    for (place, path) in paths.iter().enumerate() {
        let value = StepValue {
            path: bounds::cut(&redactor.text(path), VALUE),
            old: at(old, path).map(|v| shown(v, redactor)),
            new: at(new, path).map(|v| shown(v, redactor)),
        };
        bytes +=
            value.path.len() + [&value.old, &value.new].into_iter().flatten().map(String::len).sum::<usize>();
        if bytes > STEP {
            let rest = format!("... and {} more", paths.len() - place);
            values.push(StepValue { path: rest, old: None, new: None });
            break;
        }
        values.push(value);
    }
    values
}

fn inputs(state: Option<&Value>) -> Option<&serde_json::Map<String, Value>> {
    state?.get("inputs")?.as_object()
}

/// Pulumi keeps notes of its own among the inputs.
fn keys(state: Option<&Value>) -> Vec<String> {
    inputs(state).into_iter().flatten().map(|(k, _)| k.clone()).filter(|k| !k.starts_with("__")).collect()
}

fn differing(old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let mut all = [keys(old), keys(new)].concat();
    all.sort();
    all.dedup();
    let of = |state: Option<&Value>, key: &String| inputs(state).and_then(|i| i.get(key)).cloned();
    all.retain(|key| of(old, key) != of(new, key));
    all
}

/// The value at a path such as `tags.a[0]["b.c"]`: among the inputs, else among the outputs.
fn at<'a>(state: Option<&'a Value>, path: &str) -> Option<&'a Value> {
    let parts = parts(path);
    let below = |root: &'a Value| {
        parts.iter().try_fold(root, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part.as_str()),
        })
    };
    let state = state?;
    ["inputs", "outputs"].into_iter().find_map(|root| below(state.get(root)?))
}

fn parts(path: &str) -> Vec<String> {
    let (mut parts, mut part, mut quoted) = (vec![], String::new(), false);
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quoted => part.extend(letters.next()),
            '"' => quoted = !quoted,
            '.' | '[' | ']' if !quoted => {
                parts.push(std::mem::take(&mut part));
            }
            other => part.push(other),
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

fn shown(value: &Value, redactor: &Redactor) -> String {
    let clean = redactor.value(&known(&masked(value)));
    bounds::cut(&redactor.text(&clean.to_string()), VALUE)
}

fn known(value: &Value) -> Value {
    match value {
        Value::String(text) if UNKNOWN.contains(&text.as_str()) => "(known once it is made)".into(),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), known(v))).collect()),
        Value::Array(items) => Value::Array(items.iter().map(known).collect()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::MASK;
    use serde_json::json;

    fn value(path: &str, old: Option<&str>, new: Option<&str>) -> StepValue {
        StepValue { path: path.to_owned(), old: old.map(str::to_owned), new: new.map(str::to_owned) }
    }

    #[test]
    fn a_create_shows_its_inputs_and_no_secret() {
        let new = json!({"inputs": {
            "__defaults": [], "a": "one", "b": "x hunter2 y", "id": "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
            "s": {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}}});
        let found = of(StepOp::Create, None, Some(&new), &[], &Redactor::new(["hunter2"]));
        let masked = format!("\"{MASK}\"");
        assert_eq!(
            found,
            [
                value("a", None, Some("\"one\"")),
                value("b", None, Some(&format!("\"x {MASK} y\""))),
                value("id", None, Some("\"(known once it is made)\"")),
                value("s", None, Some(&masked)),
            ]
        );
    }

    #[test]
    fn an_update_shows_what_was_and_what_will_be() {
        let old =
            json!({"inputs": {"tags": {"a": [1, 2], "b.c": "x"}, "gone": true}, "outputs": {"size": 3}});
        let new = json!({"inputs": {"tags": {"a": [1, 4], "b.c": "y"}}, "outputs": {"size": 5}});
        let paths = ["tags.a[1]", "tags[\"b.c\"]", "gone", "size"].map(str::to_owned);
        let none = Redactor::new([]);
        let found = of(StepOp::Update, Some(&old), Some(&new), &paths, &none);
        assert_eq!(
            found,
            [
                value("tags.a[1]", Some("2"), Some("4")),
                value("tags[\"b.c\"]", Some("\"x\""), Some("\"y\"")),
                value("gone", Some("true"), None),
                value("size", Some("3"), Some("5")),
            ]
        );
        // A provider that names no path: the inputs that differ.
        let found = of(StepOp::Replace, Some(&old), Some(&new), &[], &none);
        assert_eq!(found.iter().map(|v| v.path.as_str()).collect::<Vec<_>>(), ["gone", "tags"]);
    }

    #[test]
    fn values_and_steps_are_cut_after_secrets_are_masked() {
        let secret = "s".repeat(50);
        let long = format!("{}{secret}{}", "x".repeat(VALUE * 3 / 4 - 45), "y".repeat(VALUE));
        let many: serde_json::Map<String, Value> =
            (0..100).map(|n| (format!("k{n:03}"), json!(long))).collect();
        let found =
            of(StepOp::Create, None, Some(&json!({"inputs": many})), &[], &Redactor::new([secret.as_str()]));
        assert!(found.len() < 20 && found.last().unwrap().path.starts_with("... and "), "{found:?}");
        assert!(found.iter().all(|v| !format!("{v:?}").contains("ssss")), "{found:?}");
    }
}
