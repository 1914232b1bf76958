//! AsyncAPI 3.0 of the events, made from the event catalogue and the table of workers, and compared with what is
//! checked in. `UPDATE_DOCUMENTS=1 cargo test -p runtime-cloud-application --test asyncapi` writes it anew.
#![expect(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use events::{Event, Inbound};
use runtime_cloud_application::catalog::{CONSUMERS, HANDLERS, Retry, Row, Trigger, WORKERS};
use serde_json::{Map, Value, json};

fn events_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../events")
}

/// Keys in their order, whatever else in the build decides on the order of a map.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<String, Value> = map.into_iter().collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn file(topic: &str) -> String {
    format!("{}.json", topic.rsplit('.').next().unwrap())
}

fn reference(path: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/{path}/{name}") })
}

fn message(name: &str, topic: &str) -> Value {
    let sample = fs::read(events_folder().join("samples").join(file(topic))).unwrap();
    let sample: Value = serde_json::from_slice(&sample).unwrap();
    json!({
        "name": name,
        "title": name,
        "contentType": "application/cloudevents+json",
        "payload": {
            "allOf": [
                { "$ref": "schemas/envelope.json" },
                {
                    "type": "object",
                    "properties": {
                        "type": { "const": topic },
                        "data": { "$ref": format!("schemas/{}", file(topic)) },
                    },
                },
            ],
        },
        "examples": [{ "name": "sample", "payload": sample }],
    })
}

fn channel(name: &str, topic: &str) -> Value {
    json!({ "address": topic, "messages": { name: reference("components/messages", name) } })
}

fn operation(action: &str, name: &str, more: Value) -> Value {
    let mut operation = json!({
        "action": action,
        "channel": reference("channels", name),
        "messages": [{ "$ref": format!("#/channels/{name}/messages/{name}") }],
    });
    if let (Some(operation), Value::Object(more)) = (operation.as_object_mut(), more) {
        operation.extend(more);
    }
    operation
}

/// The rows that an event wakes.
fn woken(producer: &str, name: &str) -> Vec<&'static str> {
    let event = format!("{producer}.{name}");
    let wakes = |row: &Row| {
        matches!(row.trigger, Trigger::Event(by) if by == event) || row.inputs.contains(&event.as_str())
    };
    WORKERS.iter().chain(&HANDLERS).filter(|r| wakes(r)).map(|r| r.name).collect()
}

fn row(row: &Row) -> Value {
    let (retry, attempts) = match row.retry {
        Retry::Exponential(n) => ("exponential", n),
        Retry::Fixed(n) => ("fixed", n),
        Retry::None => ("none", 1),
    };
    let trigger = match row.trigger {
        Trigger::Event(event) => json!({ "event": event }),
        Trigger::Schedule(cron) => json!({ "schedule": cron }),
    };
    json!({
        "name": row.name,
        "service": row.service.name(),
        "trigger": trigger,
        "inputs": row.inputs,
        "outputs": row.outputs,
        "retry": { "kind": retry, "attempts": attempts },
        "idempotencyKey": row.idempotency_key,
        "concurrency": { "limit": row.concurrency, "by": row.group },
    })
}

fn document() -> Value {
    let (mut channels, mut operations, mut messages) = (Map::new(), Map::new(), Map::new());
    for ((name, topic, producer, aggregate), (_, consumers)) in Event::CATALOGUE.iter().zip(CONSUMERS) {
        channels.insert((*name).to_owned(), channel(name, topic));
        messages.insert((*name).to_owned(), message(name, topic));
        let more = json!({
            "x-producer": producer.name(),
            "x-aggregate": aggregate,
            "x-consumers": consumers,
            "x-wakes": woken(producer.name(), name),
        });
        operations.insert(format!("send{name}"), operation("send", name, more));
    }
    for (name, topic, producer) in &Inbound::CATALOGUE {
        channels.insert((*name).to_owned(), channel(name, topic));
        messages.insert((*name).to_owned(), message(name, topic));
        let more = json!({ "x-producer": producer, "x-wakes": woken(producer, name) });
        operations.insert(format!("receive{name}"), operation("receive", name, more));
    }
    sorted(json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Runtime Cloud",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Events that Runtime Cloud emits and takes in, as CloudEvents 1.0 in JSON. The same event \
                            has the same id, however often it is sent.",
            "license": { "name": "Apache-2.0" },
        },
        "defaultContentType": "application/cloudevents+json",
        "channels": channels,
        "operations": operations,
        "components": { "messages": messages },
        "x-workers": WORKERS.iter().map(row).collect::<Vec<_>>(),
        "x-handlers": HANDLERS.iter().map(row).collect::<Vec<_>>(),
    }))
}

#[test]
fn the_document_is_what_the_code_makes() {
    let path = events_folder().join("asyncapi.json");
    let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        fs::write(&path, made).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "{} is not what the code makes: run with UPDATE_DOCUMENTS=1", path.display());
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut found = vec![];
    references(&document, &mut found);
    assert!(found.len() > 18 * 3, "{found:?}");
    for reference in found {
        let there = match reference.strip_prefix('#') {
            Some(pointer) => document.pointer(pointer).is_some(),
            None => events_folder().join(reference).is_file(),
        };
        assert!(there, "{reference}");
    }
}

#[test]
fn every_event_is_sent_or_received_once() {
    let document = document();
    let operations = document["operations"].as_object().unwrap();
    let actions = |action: &str| operations.values().filter(|o| o["action"] == action).count();
    assert_eq!((actions("send"), actions("receive")), (13, 5));
    assert_eq!(document["channels"].as_object().unwrap().len(), 18);
}
