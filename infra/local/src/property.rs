//! Pulumi's property values: plain data, secrets and values that are not known yet.

use std::collections::BTreeMap;
use std::fmt;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

const SIGNATURE: &str = "4dabf18193072939515e22adb298388d";
const SECRET: &str = "1b47061264138c4ac30d75fd1eb44270";
const OUTPUT: &str = "d0e6a833031e9bbcd3f4e8bde6ca49a4";
/// What stands for a string that is not known during a preview.
pub(crate) const UNKNOWN: &str = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
const UNKNOWNS: [&str; 7] = [
    UNKNOWN,
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    "030794c1-ac77-496b-92df-f27374a8bd58",
    "e48ece36-62e2-4504-bad9-02848725956a",
];

/// The output that says how often a resource was created under its name.
pub(crate) const GENERATION: &str = "generation";

/// The properties of one resource.
pub(crate) type Properties = BTreeMap<String, Property>;

/// One value. A secret is wrapped once, at its outermost place.
#[derive(Clone, PartialEq)]
pub(crate) enum Property {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Property>),
    Map(Properties),
    Secret(Box<Property>),
    Unknown,
}

// Written by hand: a derived one would print secrets into logs.
impl fmt::Debug for Property {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => out.write_str("null"),
            Self::Bool(value) => value.fmt(out),
            Self::Number(value) => value.fmt(out),
            Self::Text(value) => value.fmt(out),
            Self::List(value) => value.fmt(out),
            Self::Map(value) => value.fmt(out),
            Self::Secret(_) => out.write_str("[secret]"),
            Self::Unknown => out.write_str("[unknown]"),
        }
    }
}

impl Property {
    pub(crate) fn text(value: impl Into<String>) -> Self {
        Self::Text(value.into())
    }

    pub(crate) fn from_proto(value: Value) -> Self {
        match value.kind {
            None | Some(Kind::NullValue(_)) => Self::Null,
            Some(Kind::BoolValue(value)) => Self::Bool(value),
            Some(Kind::NumberValue(value)) => Self::Number(value),
            Some(Kind::StringValue(value)) if UNKNOWNS.contains(&value.as_str()) => Self::Unknown,
            Some(Kind::StringValue(value)) => Self::Text(value),
            Some(Kind::ListValue(list)) => {
                Self::List(list.values.into_iter().map(Self::from_proto).collect())
            }
            Some(Kind::StructValue(fields)) => Self::from_fields(fields),
        }
    }

    fn from_fields(fields: Struct) -> Self {
        let mut map = properties(Some(fields));
        match map.get(SIGNATURE) {
            Some(Self::Text(signature)) if signature == SECRET => {
                map.remove("value").unwrap_or(Self::Null).into_secret()
            }
            Some(Self::Text(signature)) if signature == OUTPUT => {
                let value = map.remove("value").unwrap_or(Self::Unknown);
                if map.get("secret") == Some(&Self::Bool(true)) { value.into_secret() } else { value }
            }
            _ => Self::Map(map),
        }
    }

    pub(crate) fn into_proto(self) -> Value {
        let kind = match self {
            Self::Null => Kind::NullValue(0),
            Self::Bool(value) => Kind::BoolValue(value),
            Self::Number(value) => Kind::NumberValue(value),
            Self::Text(value) => Kind::StringValue(value),
            Self::Unknown => Kind::StringValue(UNKNOWN.to_owned()),
            Self::List(list) => {
                Kind::ListValue(ListValue { values: list.into_iter().map(Self::into_proto).collect() })
            }
            Self::Map(map) => Kind::StructValue(structure(map)),
            Self::Secret(inner) => Kind::StructValue(structure(Properties::from([
                (SIGNATURE.to_owned(), Self::text(SECRET)),
                ("value".to_owned(), *inner),
            ]))),
        };
        Value { kind: Some(kind) }
    }

    /// Wraps the value as a secret, once, whatever was wrapped inside of it.
    pub(crate) fn into_secret(self) -> Self {
        Self::Secret(Box::new(self.into_plain()))
    }

    /// The value without any wrapping.
    pub(crate) fn into_plain(self) -> Self {
        match self {
            Self::Secret(inner) => inner.into_plain(),
            Self::List(list) => Self::List(list.into_iter().map(Self::into_plain).collect()),
            Self::Map(map) => {
                Self::Map(map.into_iter().map(|(key, value)| (key, value.into_plain())).collect())
            }
            other => other,
        }
    }

    pub(crate) fn has_secret(&self) -> bool {
        match self {
            Self::Secret(_) => true,
            Self::List(list) => list.iter().any(Self::has_secret),
            Self::Map(map) => map.values().any(Self::has_secret),
            _ => false,
        }
    }

    pub(crate) fn has_unknown(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Secret(inner) => inner.has_unknown(),
            Self::List(list) => list.iter().any(Self::has_unknown),
            Self::Map(map) => map.values().any(Self::has_unknown),
            _ => false,
        }
    }

    /// The text, also when it is a secret.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            Self::Secret(inner) => inner.as_text(),
            _ => None,
        }
    }

    /// The map, also when it is a secret.
    pub(crate) fn as_map(&self) -> Option<&Properties> {
        match self {
            Self::Map(map) => Some(map),
            Self::Secret(inner) => inner.as_map(),
            _ => None,
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
            Self::Secret(inner) => inner.kind(),
            Self::Unknown => "a value that is not known yet",
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null | Self::Unknown => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(value) => (*value).into(),
            Self::Text(value) => value.as_str().into(),
            Self::List(list) => list.iter().map(Self::to_json).collect::<Vec<_>>().into(),
            Self::Map(map) => map
                .iter()
                .map(|(key, value)| (key.clone(), value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Self::Secret(inner) => inner.to_json(),
        }
    }

    pub(crate) fn from_json(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(value) => value.as_f64().map_or(Self::Null, Self::Number),
            serde_json::Value::String(value) => Self::text(value.as_str()),
            serde_json::Value::Array(list) => Self::List(list.iter().map(Self::from_json).collect()),
            serde_json::Value::Object(map) => {
                Self::Map(map.iter().map(|(key, value)| (key.clone(), Self::from_json(value))).collect())
            }
        }
    }
}

/// Which creation under a name a state speaks of. A forced replacement creates before it deletes, and
/// the deletion must not take what the creation has just adopted.
pub(crate) fn generation(outputs: &Properties) -> u32 {
    match outputs.get(GENERATION) {
        Some(Property::Number(number)) if (0.0..=f64::from(u32::MAX)).contains(number) => *number as u32,
        _ => 0,
    }
}

/// Reads what the engine sent; nulls count as absent.
pub(crate) fn properties(fields: Option<Struct>) -> Properties {
    fields
        .map(|fields| fields.fields)
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, Property::from_proto(value)))
        .filter(|(_, value)| *value != Property::Null)
        .collect()
}

/// The same properties as the engine wants them.
pub(crate) fn structure(map: Properties) -> Struct {
    Struct { fields: map.into_iter().map(|(key, value)| (key, value.into_proto())).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(value: Property) -> Property {
        Property::Secret(Box::new(value))
    }

    #[test]
    fn a_secret_survives_the_way_in_and_out() {
        let there = secret(Property::text("hush")).into_proto();
        assert_eq!(Property::from_proto(there), secret(Property::text("hush")));
    }

    #[test]
    fn secrets_inside_secrets_are_wrapped_once() {
        let inner = Property::Map(Properties::from([("A".into(), secret(Property::text("x")))]));
        let wrapped = Property::from_proto(Property::Secret(Box::new(inner)).into_proto());
        assert_eq!(wrapped, secret(Property::Map(Properties::from([("A".into(), Property::text("x"))]))));
    }

    #[test]
    fn each_kind_of_unknown_is_recognised() {
        for magic in UNKNOWNS {
            let list = Property::List(vec![Property::text(magic)]).into_proto();
            assert!(Property::from_proto(list).has_unknown(), "{magic}");
        }
    }

    #[test]
    fn an_output_value_is_its_value_a_secret_or_unknown() {
        let output = |fields: Vec<(&str, Property)>| {
            let mut map = Properties::from([(SIGNATURE.to_owned(), Property::text(OUTPUT))]);
            map.extend(fields.into_iter().map(|(key, value)| (key.to_owned(), value)));
            Property::from_proto(Property::Map(map).into_proto())
        };
        assert_eq!(output(vec![("value", Property::Bool(true))]), Property::Bool(true));
        assert_eq!(output(vec![]), Property::Unknown);
        assert_eq!(
            output(vec![("value", Property::text("x")), ("secret", Property::Bool(true))]),
            secret(Property::text("x"))
        );
    }

    #[test]
    fn printing_never_shows_a_secret() {
        let map = Property::Map(Properties::from([("A".into(), secret(Property::text("hush")))]));
        assert!(!format!("{map:?}").contains("hush"));
    }

    #[test]
    fn json_and_back_is_the_same() {
        let map = Property::Map(Properties::from([
            ("tcp".into(), Property::Map(Properties::from([("port".into(), Property::Number(80.0))]))),
            ("list".into(), Property::List(vec![Property::text("a"), Property::Bool(false)])),
        ]));
        assert_eq!(Property::from_json(&map.to_json()), map);
    }
}
