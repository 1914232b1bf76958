//! What a row or an event holds of a text or a value of any size. A store refuses rows that are too large, and a run
//! whose last commit is refused would never end: so everything from outside is cut to fit first.

use serde::Serialize;
use serde_json::{Map, Value};

/// Bytes of a text: a reason, a message.
pub const TEXT: usize = 4 * 1024;
/// Bytes of a run's outputs, as JSON.
pub const OUTPUTS: usize = 64 * 1024;
/// Bytes of all that a plan rests on: references with their versions.
pub const INPUTS: usize = 128 * 1024;
/// Bytes of one output, as JSON, where all of them together are too many.
const OUTPUT: usize = 1024;

/// A text that fits. The beginning says what it is about, the end what to do: both are kept.
pub fn text(text: &str) -> String {
    cut(text, TEXT)
}

/// A text of at most so many bytes, and a note of what is left out.
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let note = format!(" ... {} bytes in all ... ", text.len());
    let room = limit.saturating_sub(note.len());
    let mut head = room - room / 4;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - room / 4;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let part = |range: Option<&str>| range.unwrap_or_default().to_owned();
    format!("{}{note}{}", part(text.get(..head)), part(text.get(tail..)))
}

/// Outputs that fit. The apply receipt holds all of them.
pub fn outputs(outputs: Value) -> Value {
    if written(&outputs) <= OUTPUTS {
        return outputs;
    }
    let whole = left_out(&outputs);
    let Value::Object(map) = outputs else { return whole };
    let short = |value: Value| if written(&value) <= OUTPUT { value } else { left_out(&value) };
    let kept: Map<String, Value> = map.into_iter().map(|(key, value)| (key, short(value))).collect();
    let kept = Value::Object(kept);
    if written(&kept) <= OUTPUTS { kept } else { whole }
}

/// Bytes of a value as JSON, as a row holds it.
pub fn written(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}

fn left_out(value: &Value) -> Value {
    Value::String(format!("{} bytes, too many to show here: the apply receipt holds it", written(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_fits_stays_as_it_is() {
        let small = json!({"a": "x".repeat(OUTPUTS - 100), "b": [1, 2]});
        assert_eq!(outputs(small.clone()), small);
        assert_eq!(text("why"), "why");
    }

    #[test]
    fn only_what_is_too_large_is_left_out() {
        let cut = outputs(json!({"large": "x".repeat(10_000_000), "small": 3}));
        assert_eq!(cut["small"], 3);
        assert_eq!(cut["large"], "10000002 bytes, too many to show here: the apply receipt holds it");
        let many: Map<String, Value> = (0..100_000).map(|n| (n.to_string(), json!(n))).collect();
        assert!(outputs(Value::Object(many)).as_str().unwrap().contains("the apply receipt holds it"));
        assert!(outputs(json!("x".repeat(OUTPUTS))).as_str().unwrap().len() < 100);
    }

    #[test]
    fn a_text_keeps_its_beginning_and_its_end() {
        let long = format!("it failed: {}; plan again", "é".repeat(1_000_000));
        let cut = text(&long);
        assert!(
            cut.len() <= TEXT && cut.starts_with("it failed: é") && cut.ends_with("; plan again"),
            "{cut}"
        );
        assert!(cut.contains(&format!("{} bytes in all", long.len())), "{cut}");
    }
}
