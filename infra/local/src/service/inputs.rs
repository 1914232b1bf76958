//! The inputs of a service: their defaults and their rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};
use std::time::Duration;

use crate::check::{Failure, Failures, quote_advice};
use crate::digest;
use crate::health::{Check, Probe};
use crate::process;
use crate::property::{Properties, Property};

pub(crate) const STOP_TIMEOUT: f64 = 10.0;
const HEALTH_TIMEOUT: f64 = 30.0;
const MOST_REPLICAS: u32 = 256;
const KNOWN: [&str; 9] = [
    "name",
    "command",
    "replicas",
    "env",
    "secretEnv",
    "workingDirectory",
    "version",
    "health",
    "stopTimeoutSeconds",
];
const RESERVED: [&str; 3] = [process::MARKER, process::RUN, process::REPLICA];

/// The inputs as far as they are known and right.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) name: Option<String>,
    pub(crate) command: Option<Vec<String>>,
    pub(crate) replicas: Option<u32>,
    pub(crate) env: Option<BTreeMap<String, String>>,
    pub(crate) secret_env: Option<BTreeMap<String, String>>,
    pub(crate) working_directory: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) stop_timeout: Option<f64>,
    pub(crate) failures: Failures,
}

/// Fills in the defaults and finds what is wrong.
pub(crate) fn check(urn: &str, old: &Properties, mut new: Properties) -> (Properties, Vec<Failure>) {
    if !new.contains_key("name") {
        // What was named once keeps its name, also when its URN changes.
        let name = old.get("name").cloned().unwrap_or_else(|| Property::Text(default_name(urn)));
        new.insert("name".to_owned(), name);
    }
    new.entry("replicas".to_owned()).or_insert(Property::Number(1.0));
    new.entry("stopTimeoutSeconds".to_owned()).or_insert(Property::Number(STOP_TIMEOUT));
    for key in ["env", "secretEnv"] {
        if new.get(key).and_then(Property::as_map).is_some_and(Properties::is_empty) {
            new.remove(key);
        }
    }
    let read = read(&new);
    if let Some(env) = read.env.filter(|_| new.get("env").is_some_and(|value| !value.has_secret())) {
        new.insert("env".to_owned(), texts(env));
    }
    if let Some(value) = new.remove("secretEnv") {
        let value = read.secret_env.map_or(value, texts);
        new.insert("secretEnv".to_owned(), value.into_secret());
    }
    if let Some(replicas) = read.replicas {
        new.insert("replicas".to_owned(), Property::Number(f64::from(replicas)));
    }
    (new, read.failures.into_list())
}

fn texts(map: BTreeMap<String, String>) -> Property {
    Property::Map(map.into_iter().map(|(key, value)| (key, Property::Text(value))).collect())
}

/// The resource's own name, and enough of a digest that two resources never share it.
fn default_name(urn: &str) -> String {
    // A URN is urn:pulumi:<stack>::<project>::<types>::<name>, and the name may hold `::` itself.
    let name = urn.splitn(4, "::").nth(3).unwrap_or(urn);
    let digest: String = digest::sha256(urn.as_bytes()).chars().take(12).collect();
    format!("{name}-{digest}")
}

/// Reads all inputs.
pub(crate) fn read(inputs: &Properties) -> Read {
    let mut failures = Failures::default();
    failures.unknown(inputs, "", &KNOWN);
    failures.no_secrets(
        inputs,
        &["secretEnv"],
        "put the value into `secretEnv` and let the program read its environment",
    );
    let name = failures.text(inputs, "name");
    if name.as_ref().is_some_and(String::is_empty) {
        failures.add("name", "must not be empty: give it a name, or leave it away");
    }
    let command = command(inputs, &mut failures);
    let replicas = failures.whole(inputs, "replicas", "", 0, MOST_REPLICAS);
    let env = variables(inputs, "env", &mut failures);
    let secret_env = variables(inputs, "secretEnv", &mut failures);
    if let (Some(env), Some(secret)) = (&env, &secret_env) {
        let both: BTreeSet<_> = env.keys().filter(|key| secret.contains_key(*key)).collect();
        for key in both {
            failures.add(&format!("env.{key}"), "is in `secretEnv` too: remove one of them");
        }
    }
    let working_directory = failures.text(inputs, "workingDirectory");
    if let Some(directory) = &working_directory {
        let path = Path::new(directory);
        if directory.is_empty()
            || (path.is_relative() && path.components().any(|part| part == Component::ParentDir))
        {
            failures.add(
                "workingDirectory",
                "must be an absolute path, or one below the environment's root folder without `..`",
            );
        }
    }
    let version = failures.text(inputs, "version");
    if let Some(value) = inputs.get("health") {
        health(value, replicas.unwrap_or(1), &mut failures);
    }
    let stop_timeout = failures.seconds(inputs, "stopTimeoutSeconds", "");
    Read { name, command, replicas, env, secret_env, working_directory, version, stop_timeout, failures }
}

fn command(inputs: &Properties, failures: &mut Failures) -> Option<Vec<String>> {
    const ADVICE: &str =
        "must be a list of strings, the program first, as in [\"server\", \"--port\", \"8080\"]";
    let Some(value) = inputs.get("command") else {
        failures.add("command", format!("is missing: it {ADVICE}"));
        return None;
    };
    if value.has_unknown() {
        return None;
    }
    // Secrets in it were complained about already.
    let Property::List(words) = value.clone().into_plain() else {
        failures.add("command", ADVICE);
        return None;
    };
    let mut command = Vec::new();
    for (index, word) in words.iter().enumerate() {
        match string(word) {
            Some(word) if !word.contains('\0') && (index > 0 || !word.is_empty()) => command.push(word),
            _ => failures.add(&format!("command[{index}]"), format!("{ADVICE}{}", quote_advice(word))),
        }
    }
    if words.is_empty() {
        failures.add("command", format!("is empty: it {ADVICE}"));
    }
    (command.len() == words.len() && !command.is_empty()).then_some(command)
}

/// A string; whole numbers and booleans count, since YAML makes them of plain words.
fn string(value: &Property) -> Option<String> {
    match value {
        Property::Text(text) => Some(text.clone()),
        Property::Bool(value) => Some(value.to_string()),
        Property::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            Some(format!("{number:.0}"))
        }
        _ => None,
    }
}

fn variables(inputs: &Properties, place: &str, failures: &mut Failures) -> Option<BTreeMap<String, String>> {
    let value = inputs.get(place)?;
    if *value == Property::Unknown {
        return None;
    }
    let Some(map) = value.as_map() else {
        if !value.has_unknown() {
            failures.add(place, format!("must be an object of names and strings, not {}", value.kind()));
        }
        return None;
    };
    let mut variables = BTreeMap::new();
    for (key, value) in map {
        let here = format!("{place}.{key}");
        if key.is_empty() || key.contains(['=', '\0']) {
            failures.add(&here, "is no name for a variable: it must not be empty nor hold `=`");
        } else if RESERVED.contains(&key.as_str()) {
            failures.add(&here, "is set by the platform: use another name");
        } else if value.has_unknown() {
            continue;
        } else {
            match string(&value.clone().into_plain()) {
                Some(text) if text.contains('\0') => failures.add(&here, "holds a NUL character: remove it"),
                Some(text) => {
                    variables.insert(key.clone(), text);
                }
                None => {
                    let advice = quote_advice(&value.clone().into_plain());
                    failures.add(&here, format!("must be a string, not {}{advice}", value.kind()));
                }
            }
        }
    }
    // With a part missing it must not be taken for the whole.
    (variables.len() == map.len()).then_some(variables)
}

/// Reads `health`; none when it is not known yet or wrong.
pub(crate) fn health(value: &Property, replicas: u32, failures: &mut Failures) -> Option<Check> {
    const ADVICE: &str = "must hold either `tcp: {port}` or `http: {port, path}` or `http: {url}`, and may hold timeoutSeconds";
    if value.has_unknown() {
        return None;
    }
    let Property::Map(map) = value else {
        failures.add("health", ADVICE);
        return None;
    };
    failures.unknown(map, "health.", &["tcp", "http", "timeoutSeconds", "perReplica"]);
    let timeout = failures.seconds(map, "timeoutSeconds", "health.").unwrap_or(HEALTH_TIMEOUT);
    let ports = match map.get("perReplica") {
        None | Some(Property::Bool(false)) => 1,
        Some(Property::Bool(true)) => replicas,
        Some(_) => {
            failures.add("health.perReplica", "must be true or false");
            1
        }
    };
    let first = match (map.get("tcp"), map.get("http")) {
        (Some(Property::Map(tcp)), None) => {
            failures.unknown(tcp, "health.tcp.", &["port"]);
            let port = port(tcp, "health.tcp.", ports, failures)?;
            Probe::Tcp { port }
        }
        (None, Some(Property::Map(http))) => {
            failures.unknown(http, "health.http.", &["url", "port", "path"]);
            http_probe(http, ports, failures)?
        }
        _ => {
            failures.add("health", ADVICE);
            return None;
        }
    };
    let probes = (0..ports)
        .filter_map(|replica| {
            let shift = u16::try_from(replica).ok()?;
            Some(match first.clone() {
                Probe::Tcp { port } => Probe::Tcp { port: port.checked_add(shift)? },
                Probe::Http { host, port, path } => {
                    Probe::Http { host, port: port.checked_add(shift)?, path }
                }
            })
        })
        .collect();
    Some(Check { probes, timeout: Duration::from_secs_f64(timeout) })
}

fn port(map: &Properties, place: &str, ports: u32, failures: &mut Failures) -> Option<u16> {
    if !map.contains_key("port") {
        failures.add(&format!("{place}port"), "is missing: say which port the service listens on");
    }
    let most = 65_536 - ports.max(1);
    u16::try_from(failures.whole(map, "port", place, 1, most)?).ok()
}

fn http_probe(http: &Properties, ports: u32, failures: &mut Failures) -> Option<Probe> {
    let Some(url) = http.get("url") else {
        let port = port(http, "health.http.", ports, failures)?;
        let path = match http.get("path") {
            None => "/",
            Some(Property::Text(path)) if path.starts_with('/') => path,
            Some(_) => {
                failures.add("health.http.path", "must be a string that starts with `/`");
                return None;
            }
        };
        return match Probe::from_url(&format!("http://127.0.0.1:{port}{path}")) {
            Ok(probe) => Some(probe),
            Err(reason) => {
                failures.add("health.http.path", reason);
                None
            }
        };
    };
    if http.contains_key("port") || http.contains_key("path") {
        failures.add("health.http.url", "says the port and the path already: remove `port` and `path`");
    }
    match url.as_text().ok_or("must be a string").and_then(Probe::from_url) {
        Ok(probe) => Some(probe),
        Err(reason) => {
            failures.add("health.http.url", reason);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(json: serde_json::Value) -> Properties {
        Property::from_json(&json).as_map().cloned().unwrap_or_default()
    }

    fn failing(json: serde_json::Value) -> Vec<String> {
        let (_, failures) = check("urn:pulumi:s::p::local:index:Service::x", &Properties::new(), map(json));
        failures.into_iter().map(|failure| failure.property).collect()
    }

    #[test]
    fn each_mistake_is_told_with_its_property() {
        let cases = [
            (serde_json::json!({"command": []}), "command"),
            (serde_json::json!({"command": "sh"}), "command"),
            (serde_json::json!({}), "command"),
            (serde_json::json!({"command": ["a", {}]}), "command[1]"),
            (serde_json::json!({"command": ["a"], "replicas": -1}), "replicas"),
            (serde_json::json!({"command": ["a"], "replicas": 1.5}), "replicas"),
            (serde_json::json!({"command": ["a"], "Replicas": 1}), "Replicas"),
            (serde_json::json!({"command": ["a"], "env": {"A=B": "x"}}), "env.A=B"),
            (
                serde_json::json!({"command": ["a"], "env": {"RUNTIME_CLOUD_RUN": "x"}}),
                "env.RUNTIME_CLOUD_RUN",
            ),
            (serde_json::json!({"command": ["a"], "env": {"A": "x"}, "secretEnv": {"A": "y"}}), "env.A"),
            (serde_json::json!({"command": ["a"], "version": 1.1}), "version"),
            (serde_json::json!({"command": ["a"], "name": ""}), "name"),
            (serde_json::json!({"command": ["a"], "workingDirectory": "../x"}), "workingDirectory"),
            (serde_json::json!({"command": ["a"], "health": {}}), "health"),
            (serde_json::json!({"command": ["a"], "health": {"tcp": {"port": 0}}}), "health.tcp.port"),
            (serde_json::json!({"command": ["a"], "health": {"tcp": {}}}), "health.tcp.port"),
            (
                serde_json::json!({"command": ["a"], "health": {"http": {"url": "https://x"}}}),
                "health.http.url",
            ),
            (serde_json::json!({"command": ["a"], "stopTimeoutSeconds": -1}), "stopTimeoutSeconds"),
        ];
        for (inputs, property) in cases {
            assert_eq!(failing(inputs.clone()), [property], "{inputs}");
        }
    }

    #[test]
    fn a_secret_outside_of_secret_env_is_refused() {
        let mut inputs = map(serde_json::json!({"command": ["a"]}));
        inputs.insert("command".into(), Property::List(vec![Property::text("x").into_secret()]));
        let (_, failures) = check("u", &Properties::new(), inputs);
        assert_eq!(failures[0].property, "command");
    }

    #[test]
    fn secret_env_is_wrapped_even_when_it_was_given_in_clear() {
        let (inputs, failures) = check(
            "u",
            &Properties::new(),
            map(serde_json::json!({"command": ["a"], "secretEnv": {"A": "x"}})),
        );
        assert!(failures.is_empty());
        assert!(matches!(inputs["secretEnv"], Property::Secret(_)));
    }

    #[test]
    fn default_names_differ_by_urn_and_stay() {
        let one = default_name("urn:pulumi:s::p::local:index:Service::a::b");
        assert!(one.starts_with("a::b-"));
        assert_ne!(one, default_name("urn:pulumi:t::p::local:index:Service::a::b"));
        let old = Properties::from([("name".to_owned(), Property::text("kept"))]);
        let (inputs, _) = check("u", &old, map(serde_json::json!({"command": ["a"]})));
        assert_eq!(inputs["name"], Property::text("kept"));
    }

    #[test]
    fn what_is_not_known_yet_is_let_pass() {
        let mut inputs = map(serde_json::json!({"command": ["a"]}));
        for key in
            ["name", "command", "replicas", "env", "secretEnv", "version", "health", "workingDirectory"]
        {
            inputs.insert(key.to_owned(), Property::Unknown);
        }
        assert_eq!(check("u", &Properties::new(), inputs).1, []);
    }

    #[test]
    fn per_replica_ports_follow_each_other() {
        let value = Property::from_json(&serde_json::json!({"tcp": {"port": 9000}, "perReplica": true}));
        let check = health(&value, 3, &mut Failures::default()).unwrap();
        let addresses: Vec<_> = check.probes.iter().map(Probe::address).collect();
        assert_eq!(addresses, ["tcp://127.0.0.1:9000", "tcp://127.0.0.1:9001", "tcp://127.0.0.1:9002"]);
    }
}
