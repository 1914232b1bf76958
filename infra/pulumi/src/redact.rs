//! Takes secrets out of what is kept. Each is looked for as it is, and as JSON, a URL, hex and base64 would write it;
//! of a secret of several lines, each line too (Rule 25).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::Value;

/// What stands where a secret stood.
pub const MASK: &str = "[secret]";

/// Shorter texts are too common to be taken out without taking out everything.
const SHORTEST: usize = 4;

/// Knows the secrets of one run.
#[derive(Clone)]
pub struct Redactor {
    forms: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} forms)", self.forms.len())
    }
}

impl Redactor {
    /// Of these secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Redactor {
        let mut forms = vec![];
        for secret in secrets {
            forms.extend(forms_of(secret));
            for line in secret.lines().map(str::trim).filter(|l| l.len() >= 2 * SHORTEST) {
                forms.extend(forms_of(line));
            }
        }
        // The longest first, so that no form leaves the rest of a longer one behind.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        forms.dedup();
        Redactor { forms }
    }

    /// A text without the secrets.
    pub fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for form in &self.forms {
            if out.contains(form.as_str()) {
                out = out.replace(form.as_str(), MASK);
            }
        }
        out
    }

    /// What a program printed that may have been stopped in the middle of a word: the beginning of a secret at the
    /// very end is taken out too.
    pub fn printed(&self, text: &str) -> String {
        let mut out = self.text(text);
        let begun = |form: &String| {
            (SHORTEST..form.len()).rev().find(|n| form.get(..*n).is_some_and(|start| out.ends_with(start)))
        };
        if let Some(longest) = self.forms.iter().filter_map(begun).max() {
            out.truncate(out.len() - longest);
            out.push_str(MASK);
        }
        out
    }

    /// A value without the secrets, in keys and in texts.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|i| self.value(i)).collect()),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(k, v)| (self.text(k), self.value(v))).collect())
            }
            // A number can be a secret too.
            Value::Number(number) if self.forms.contains(&number.to_string()) => {
                Value::String(MASK.to_owned())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

fn forms_of(secret: &str) -> Vec<String> {
    if secret.len() < SHORTEST {
        return vec![];
    }
    let bytes = secret.as_bytes();
    let mut forms = vec![secret.to_owned(), hex::encode(bytes), hex::encode_upper(bytes)];
    if let Ok(json) = serde_json::to_string(secret) {
        let inner = json.trim_start_matches('"').trim_end_matches('"').to_owned();
        // A text inside a text is escaped twice.
        if let Ok(twice) = serde_json::to_string(&inner) {
            forms.push(twice.trim_start_matches('"').trim_end_matches('"').to_owned());
        }
        forms.push(inner);
    }
    // Go writes <, > and & of JSON as escapes.
    forms.push(secret.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e"));
    let urls = |keep: &dyn Fn(u8) -> bool| -> String {
        bytes
            .iter()
            .map(|b| if keep(*b) { char::from(*b).to_string() } else { format!("%{b:02X}") })
            .collect()
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    forms.push(urls(&plain));
    forms.push(urls(&plain).replace("%20", "+"));
    forms.push(urls(&plain).to_ascii_lowercase());
    for engine in [STANDARD, URL_SAFE] {
        // Inside a longer text the secret begins at one of three places of a base64 group: keep the letters that
        // depend on nothing but the secret.
        for shift in 0..3_usize {
            let mut padded = vec![0_u8; shift];
            padded.extend_from_slice(bytes);
            let encoded = engine.encode(&padded);
            let start = [0, 2, 3].get(shift).copied().unwrap_or_default();
            let whole = (padded.len() * 8) / 6;
            let form = encoded.get(start..whole.min(encoded.len())).unwrap_or_default();
            if form.len() > SHORTEST {
                forms.push(form.to_owned());
            }
        }
        forms.push(engine.encode(bytes));
    }
    forms.retain(|f| f.len() >= SHORTEST);
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_encoding_is_taken_out() {
        let secret = "p\"ss w<rd&1\\é";
        let redactor = Redactor::new([secret]);
        let json = serde_json::to_string(secret).unwrap();
        for prefix in ["", "x", "xy", "xyz"] {
            let joined = format!("{prefix}{secret}!");
            for engine in [STANDARD, URL_SAFE] {
                let encoded = engine.encode(&joined);
                let left = redactor.text(&encoded);
                assert!(left.contains(MASK), "{prefix}: {encoded} -> {left}");
            }
        }
        for form in
            [secret.to_owned(), json.clone(), serde_json::to_string(&json).unwrap(), hex::encode(secret)]
        {
            let left = redactor.text(&format!("a {form} b"));
            assert!(left.contains(MASK) && !left.contains("w<rd"), "{form} -> {left}");
        }
    }

    #[test]
    fn a_secret_that_was_cut_off_while_it_was_printed_is_taken_out() {
        let redactor = Redactor::new(["correct horse battery", "other"]);
        assert_eq!(redactor.printed("it says correct hor"), format!("it says {MASK}"));
        assert_eq!(redactor.printed("it says correct horse battery"), format!("it says {MASK}"));
        assert_eq!(redactor.printed("it says cor"), "it says cor");
    }

    #[test]
    fn each_line_of_a_key_is_taken_out() {
        let key = "-----BEGIN KEY-----\nabcdefghij0123456789\nklmnopqrst0123456789\n-----END KEY-----";
        assert!(!Redactor::new([key]).text("x klmnopqrst0123456789 y").contains("klmnop"));
    }
}
