//! What differs between old and new inputs, property by property.

use std::collections::{BTreeMap, BTreeSet};

use pulumi_gestalt_proto::pulumi::pulumirpc::diff_response::DiffChanges;
use pulumi_gestalt_proto::pulumi::pulumirpc::property_diff::Kind;
use pulumi_gestalt_proto::pulumi::pulumirpc::{DiffResponse, PropertyDiff};

use crate::property::{Properties, Property};

/// Compares; secrets by their value, a value that is not known yet with nothing.
fn compare(place: &str, old: Option<&Property>, new: Option<&Property>, found: &mut BTreeMap<String, Kind>) {
    match (old, new) {
        (None, None) => {}
        (Some(_), None) => {
            found.insert(place.to_owned(), Kind::Delete);
        }
        (None, Some(_)) => {
            found.insert(place.to_owned(), Kind::Add);
        }
        (Some(Property::Map(old)), Some(Property::Map(new))) => {
            for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                compare(&step(place, key), old.get(key), new.get(key), found);
            }
        }
        (Some(old), Some(new)) => {
            if old.has_unknown() || new.has_unknown() || old != new {
                found.insert(place.to_owned(), Kind::Update);
            }
        }
    }
}

fn step(place: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if plain { format!("{place}.{key}") } else { format!("{place}[{key:?}]") }
}

/// The engine's answer. A change of `fixed` replaces the resource, the old one being deleted first:
/// both would have the same name, ports or path.
pub(crate) fn differ(old: Properties, new: Properties, fixed: &[&str], ignored: &[String]) -> DiffResponse {
    let plain = |map: Properties| Property::Map(map).into_plain();
    let (Property::Map(old), Property::Map(new)) = (plain(old), plain(new)) else {
        return DiffResponse::default();
    };
    let mut response =
        DiffResponse { has_detailed_diff: true, delete_before_replace: true, ..Default::default() };
    for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        if ignored.contains(key) || key.starts_with("__") {
            continue;
        }
        let mut found = BTreeMap::new();
        compare(key, old.get(key), new.get(key), &mut found);
        if found.is_empty() {
            continue;
        }
        response.diffs.push(key.clone());
        let replaces = fixed.contains(&key.as_str());
        if replaces {
            response.replaces.push(key.clone());
        }
        for (place, kind) in found {
            let kind = match (replaces, kind) {
                (true, Kind::Add) => Kind::AddReplace,
                (true, Kind::Delete) => Kind::DeleteReplace,
                (true, _) => Kind::UpdateReplace,
                (false, kind) => kind,
            };
            response.detailed_diff.insert(place, PropertyDiff { kind: kind.into(), input_diff: true });
        }
    }
    let changes = if response.diffs.is_empty() { DiffChanges::DiffNone } else { DiffChanges::DiffSome };
    response.changes = changes.into();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, Property)]) -> Properties {
        entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    }

    #[test]
    fn each_changed_key_is_named_and_secrets_are_compared_by_value() {
        let secret = |value| Property::Map(map(&[("A.b", Property::text(value))])).into_secret();
        let old = map(&[("name", Property::text("a")), ("s", secret("1")), ("env", Property::Map(map(&[])))]);
        let env = Property::Map(map(&[("X", Property::text("1"))]));
        let new = map(&[("name", Property::text("b")), ("s", secret("2")), ("env", env)]);
        let answer = differ(old.clone(), new, &["name"], &[]);
        let kind = |place: &str| answer.detailed_diff[place].kind;
        assert_eq!(kind("name"), i32::from(Kind::UpdateReplace));
        assert_eq!(kind("s[\"A.b\"]"), i32::from(Kind::Update));
        assert_eq!(kind("env.X"), i32::from(Kind::Add));
        assert_eq!(answer.replaces, ["name"]);
        assert_eq!(differ(old.clone(), old, &["name"], &[]).changes, i32::from(DiffChanges::DiffNone));
    }

    #[test]
    fn what_is_not_known_yet_may_change() {
        let old = map(&[("v", Property::text("1"))]);
        let answer = differ(old, map(&[("v", Property::Unknown)]), &[], &[]);
        assert_eq!(answer.diffs, ["v"]);
    }
}
