//! The stack's name and its configuration file.

use std::collections::BTreeMap;

use events::{EnvironmentId, TenantId};
use serde_json::{Map, Value};

use crate::project::Project;

/// Pulumi allows 100 characters.
const LONGEST: usize = 100;

/// An injective encoding of tenant and environment in the letters that Pulumi allows: no two environments share a
/// stack. A name that would be too long is its digest.
pub fn stack_name(tenant: &TenantId, environment: &EnvironmentId) -> String {
    let name = format!("{}.{}", letters(tenant.as_str()), letters(environment.as_str()));
    if name.len() <= LONGEST {
        return name;
    }
    // "..": no short name has two dots in a row, as no id is empty.
    format!("long..{}", domain::Digest::of(name.as_bytes()))
}

fn letters(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("_{byte:02x}"));
        }
    }
    out
}

/// The configuration file of a stack: JSON, which is YAML too. Secrets are added by Pulumi itself, encrypted.
pub(crate) fn config_file(
    project: &Project,
    plain: &BTreeMap<String, String>,
    salt: Option<&str>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut config = Map::new();
    for (key, value) in plain {
        config.insert(project.full_key(key), Value::String(project.as_declared(key, value)));
    }
    let mut file = Map::new();
    file.insert("config".to_owned(), Value::Object(config));
    if let Some(salt) = salt {
        file.insert("encryptionsalt".to_owned(), Value::String(salt.to_owned()));
    }
    serde_json::to_vec(&Value::Object(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(tenant: &str, environment: &str) -> String {
        stack_name(&TenantId::new(tenant).unwrap(), &EnvironmentId::new(environment).unwrap())
    }

    #[test]
    fn no_two_environments_share_a_stack() {
        let ids = ["a", "a.b", "a_b", "a_2eb", "a::b", "a/b", "ä", "A", "\"a\"", "a\\b", &"x".repeat(128)];
        let mut names = std::collections::BTreeSet::new();
        for tenant in ids {
            for environment in ids {
                let name = name(tenant, environment);
                assert!(name.len() <= LONGEST, "{name}");
                assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)), "{name}");
                assert!(names.insert(name.clone()), "{tenant}/{environment} shares {name}");
            }
        }
    }
}
