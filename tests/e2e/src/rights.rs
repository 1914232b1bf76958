//! Holds what the functions of a stack asked for against the roles of its template.

use std::collections::{BTreeMap, BTreeSet};

use emulator::rights::gives;
use emulator::{Emulator, Recorded};
use serde_json::Value;

use crate::stack::STACK;

/// What came of it.
#[derive(Debug)]
pub struct Held {
    /// How many rights were looked for.
    pub checked: usize,
    /// Those of them that a job needed, with the credentials of that job alone.
    pub of_jobs: usize,
    /// What no role allows.
    pub refused: BTreeSet<String>,
    /// What was allowed: the function, and the right.
    pub allowed: BTreeSet<(String, String)>,
}

/// Policies of a role, by the beginning of its name.
#[expect(clippy::panic, clippy::unwrap_used, reason = "a test of roles that can't be read has failed")]
fn policies(roles: &Value, name: &str) -> Vec<Value> {
    let all = roles["RoleDetailList"].as_array().unwrap();
    let role = all.iter().find(|r| r["RoleName"].as_str().unwrap().starts_with(name));
    let role = role.unwrap_or_else(|| panic!("no role {name}: {roles}"));
    role["RolePolicyList"].as_array().unwrap().iter().map(|p| p["PolicyDocument"].clone()).collect()
}

/// `rc-outbox-relay` has the role `rc-OutboxRelayFunctionRole-...`.
fn role_of(function: &str) -> String {
    let words = function.trim_start_matches(STACK).split('-').filter(|word| !word.is_empty());
    let name: String = words.map(|w| w[..1].to_uppercase() + &w[1..]).collect();
    format!("{STACK}-{name}FunctionRole")
}

/// Looks at every request of the stack's functions.
pub fn hold(emulator: &Emulator, all: &[Recorded]) -> Held {
    let roles = emulator.aws(&["iam", "get-account-authorization-details", "--filter", "Role"]);
    // What STS gave out: of which role, and narrowed to what.
    let given = |r: &Recorded| {
        let role = r.field("RoleArn").rsplit('/').next().unwrap_or_default().to_owned();
        (role, serde_json::from_str::<Value>(r.field("Policy")).ok())
    };
    let jobs: BTreeMap<&str, (String, Option<Value>)> =
        all.iter().filter_map(|r| Some((r.gave_key.as_deref()?, given(r)))).collect();
    let mut held = Held { checked: 0, of_jobs: 0, refused: BTreeSet::new(), allowed: BTreeSet::new() };
    for request in all.iter().filter(|r| r.function.starts_with(STACK)) {
        let job = jobs.get(request.access_key.as_str());
        let role = job.map_or_else(|| role_of(&request.function), |(role, _)| role.clone());
        let (policies, narrow) = (policies(&roles, &role), job.and_then(|(_, narrow)| narrow.as_ref()));
        for right in request.needs() {
            held.checked += 1;
            held.of_jobs += usize::from(job.is_some());
            let narrowed = narrow.is_none_or(|policy| gives(policy, &right));
            if !narrowed || !policies.iter().any(|p| gives(p, &right)) {
                held.refused.insert(format!("{} may not {right} (narrowed: {narrowed})", request.function));
            } else {
                held.allowed.insert((request.function.clone(), right.to_string()));
            }
        }
    }
    held
}
