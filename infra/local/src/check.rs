//! Reading inputs: each failure names its property and says what to do.

use crate::property::{Properties, Property};

/// One thing that is wrong with the inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) property: String,
    pub(crate) reason: String,
}

/// The failures found so far.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<Failure>);

impl Failures {
    pub(crate) fn add(&mut self, property: &str, reason: impl Into<String>) {
        self.0.push(Failure { property: property.to_owned(), reason: reason.into() });
    }

    pub(crate) fn into_list(self) -> Vec<Failure> {
        self.0
    }

    /// Complains about what isn't an input, and proposes the one that was probably meant.
    pub(crate) fn unknown(&mut self, inputs: &Properties, place: &str, known: &[&str]) {
        for key in inputs.keys().filter(|key| !known.contains(&key.as_str())) {
            // `__defaults` and its like are the engine's own.
            if key.starts_with("__") {
                continue;
            }
            let meant = known.iter().find(|known| known.eq_ignore_ascii_case(&key.replace(['_', '-'], "")));
            let advice = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("remove it, or use one of {}", known.join(", ")),
            };
            self.add(&format!("{place}{key}"), format!("is not a property: {advice}"));
        }
    }

    /// Complains about secrets where the value would be written down in clear.
    pub(crate) fn no_secrets(&mut self, inputs: &Properties, allowed: &[&str], advice: &str) {
        for (key, value) in inputs {
            if !allowed.contains(&key.as_str()) && value.has_secret() {
                self.add(key, format!("holds a secret, which would be readable on this machine: {advice}"));
            }
        }
    }

    /// A string; none when absent, not known yet, or wrong.
    pub(crate) fn text(&mut self, inputs: &Properties, key: &str) -> Option<String> {
        let value = inputs.get(key).filter(|value| !value.has_unknown())?;
        match value.as_text() {
            Some(text) if text.contains('\0') => {
                self.add(key, "holds a NUL character: remove it");
                None
            }
            Some(text) => Some(text.to_owned()),
            None => {
                self.add(key, format!("must be a string, not {}{}", value.kind(), quote_advice(value)));
                None
            }
        }
    }

    /// A whole number within the limits; none when absent, not known yet, or wrong.
    pub(crate) fn whole(
        &mut self,
        inputs: &Properties,
        key: &str,
        place: &str,
        least: u32,
        most: u32,
    ) -> Option<u32> {
        let value = inputs.get(key).filter(|value| !value.has_unknown())?;
        let number = match value {
            Property::Number(number) => Some(*number),
            Property::Text(text) => text.parse().ok(),
            _ => None,
        };
        let wanted = f64::from(least)..=f64::from(most);
        match number.filter(|number| number.fract() == 0.0 && wanted.contains(number)) {
            Some(number) => Some(number as u32),
            None => {
                self.add(&format!("{place}{key}"), format!("must be a whole number from {least} to {most}"));
                None
            }
        }
    }

    /// A number of seconds; none when absent, not known yet, or wrong.
    pub(crate) fn seconds(&mut self, inputs: &Properties, key: &str, place: &str) -> Option<f64> {
        const MOST: f64 = 3600.0;
        match inputs.get(key).filter(|value| !value.has_unknown())? {
            Property::Number(number) if (0.0..=MOST).contains(number) => Some(*number),
            _ => {
                self.add(&format!("{place}{key}"), "must be a number of seconds from 0 to 3600");
                None
            }
        }
    }
}

pub(crate) fn quote_advice(value: &Property) -> &'static str {
    match value {
        Property::Number(_) | Property::Bool(_) => {
            ": write it in quotes; a configuration value needs two pairs, as in '\"1.10\"'"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(entries: &[(&str, Property)]) -> Properties {
        entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    }

    #[test]
    fn numbers_must_be_whole_and_within_limits() {
        for bad in
            [Property::Number(1.5), Property::Number(-1.0), Property::Number(101.0), Property::text("x")]
        {
            let mut failures = Failures::default();
            assert_eq!(failures.whole(&inputs(&[("n", bad)]), "n", "", 0, 100), None);
            assert_eq!(failures.into_list()[0].property, "n");
        }
        let mut failures = Failures::default();
        assert_eq!(failures.whole(&inputs(&[("n", Property::Number(7.0))]), "n", "", 0, 100), Some(7));
        assert_eq!(failures.whole(&inputs(&[("n", Property::Unknown)]), "n", "", 0, 100), None);
        assert!(failures.into_list().is_empty());
    }

    #[test]
    fn a_near_miss_gets_a_proposal() {
        let mut failures = Failures::default();
        failures.unknown(&inputs(&[("secret_env", Property::Null)]), "", &["env", "secretEnv"]);
        assert!(failures.into_list()[0].reason.contains("`secretEnv`"));
    }
}
