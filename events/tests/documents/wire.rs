//! What the samples promise holds on the wire.

use jsonschema::Validator;
use runtime_cloud_events::{Envelope, Inbound};
use schemars::schema_for;
use serde_json::{Value, json};

use crate::samples::{Sample, all, five};

fn validator(schema: &impl serde::Serialize) -> Validator {
    let schema = serde_json::to_value(schema).unwrap();
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

fn problems(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|e| e.to_string()).collect()
}

fn fields(sample: &Sample) -> (Vec<String>, Vec<String>) {
    let schema = serde_json::to_value(&sample.schema).unwrap();
    let required: Vec<String> =
        schema["required"].as_array().unwrap().iter().map(|f| f.as_str().unwrap().to_owned()).collect();
    let all = schema["properties"].as_object().unwrap().keys();
    let optional = all.filter(|f| !required.contains(f)).cloned().collect();
    (required, optional)
}

#[test]
fn every_sample_fits_its_schema_and_is_read_back() {
    let envelope = validator(&schema_for!(Envelope));
    for sample in all() {
        let whole = serde_json::to_value(&sample.envelope).unwrap();
        assert_eq!(problems(&envelope, &whole), Vec::<String>::new(), "{}", sample.name);
        let data = validator(&sample.schema);
        assert_eq!(problems(&data, &sample.envelope.data), Vec::<String>::new(), "{}", sample.name);
        assert_eq!((sample.read)(&sample.envelope).unwrap(), sample.envelope.data, "{}", sample.name);
        let bytes = serde_json::to_vec(&sample.envelope).unwrap();
        assert_eq!(Envelope::parse(&bytes).unwrap(), sample.envelope);
    }
}

#[test]
fn unknown_fields_are_tolerated() {
    for mut sample in all() {
        let known = sample.envelope.data.clone();
        sample.envelope.data["aFieldOfTomorrow"] = json!({ "nested": [1, 2] });
        assert!(validator(&sample.schema).is_valid(&sample.envelope.data), "{}", sample.name);
        assert_eq!((sample.read)(&sample.envelope).unwrap(), known, "{}", sample.name);
        let mut whole = serde_json::to_value(&sample.envelope).unwrap();
        whole["anextension"] = json!("x");
        assert!(Envelope::parse(&serde_json::to_vec(&whole).unwrap()).is_ok());
    }
}

#[test]
fn a_missing_required_field_is_refused_by_its_name() {
    for sample in all() {
        let validator = validator(&sample.schema);
        for field in fields(&sample).0 {
            let mut without = sample.envelope.clone();
            without.data.as_object_mut().unwrap().remove(&field);
            let error = (sample.read)(&without).unwrap_err();
            assert!(error.contains(&format!("`{field}`")), "{}: {field}: {error}", sample.name);
            let told = problems(&validator, &without.data);
            assert!(told.iter().any(|p| p.contains(&field)), "{}: {field}: {told:?}", sample.name);
        }
    }
}

#[test]
fn an_optional_field_may_be_missing() {
    for sample in all() {
        for field in fields(&sample).1 {
            let mut without = sample.envelope.clone();
            without.data.as_object_mut().unwrap().remove(&field);
            assert_eq!((sample.read)(&without).unwrap(), without.data, "{}: {field}", sample.name);
            assert!(validator(&sample.schema).is_valid(&without.data), "{}: {field}", sample.name);
        }
    }
}

#[test]
fn a_wrong_field_of_an_inbound_event_is_refused_by_its_path() {
    let cases = [
        ("PromotionApproved", "/program/commit", json!("main"), "program.commit"),
        ("PromotionApproved", "/approval/decidedBy", json!(""), "approval.decidedBy"),
        ("PromotionApproved", "/configRefs/0/key", json!(7), "configRefs[0].key"),
        ("PromotionApproved", "/promotionId", json!("p-1"), "promotionId"),
        ("PromotionApproved", "/tenantId", json!("a\nb"), "tenantId"),
        ("EnvironmentCreated", "/class", json!("prod"), "class"),
        ("EnvironmentCreated", "/targets/0/kind", json!("mainframe"), "targets[0].kind"),
        ("ApprovalDecided", "/decision", json!("maybe"), "decision"),
        ("ApprovalDecided", "/decidedAt", json!("yesterday"), "decidedAt"),
    ];
    for (name, pointer, wrong, path) in cases {
        let mut sample = five().into_iter().find(|s| s.name == name).unwrap();
        *sample.envelope.data.pointer_mut(pointer).unwrap() = wrong;
        let error = Inbound::read(&sample.envelope).unwrap_err().to_string();
        assert!(error.contains(&format!("data.{path}:")), "{error}");
    }
    // As a list its fields would come in some order.
    let mut sample = five().remove(0);
    let values: Vec<_> = sample.envelope.data.as_object().unwrap().values().cloned().collect();
    for wrong in [json!(values), json!("text"), json!(null)] {
        sample.envelope.data = wrong;
        let error = Inbound::read(&sample.envelope).unwrap_err().to_string();
        assert!(error.contains("field data: it must be an object"), "{error}");
    }
    // What is missing is missing in all of it.
    sample.envelope.data = json!({});
    let error = Inbound::read(&sample.envelope).unwrap_err().to_string();
    assert!(error.contains("field data: missing field"), "{error}");
    // A branch is refused with how to resolve it.
    let mut sample = five().remove(0);
    sample.envelope.data["program"]["commit"] = json!("main");
    assert!(Inbound::read(&sample.envelope).unwrap_err().to_string().contains("git rev-parse main"));
}

#[test]
fn what_is_refused_does_not_fit_the_schema_either() {
    for (name, pointer, wrong) in [
        ("PromotionApproved", "/program/commit", json!("main")),
        ("PromotionApproved", "/tenantId", json!("")),
        ("PromotionApproved", "/promotionId", json!("p-1")),
        ("EnvironmentCreated", "/environmentId", json!("e".repeat(129))),
        ("EnvironmentCreated", "/class", json!("prod")),
        ("ApprovalDecided", "/decidedAt", json!("yesterday")),
    ] {
        let mut sample = five().into_iter().find(|s| s.name == name).unwrap();
        *sample.envelope.data.pointer_mut(pointer).unwrap() = wrong;
        assert!(!validator(&sample.schema).is_valid(&sample.envelope.data), "{name} {pointer}");
    }
}

#[test]
fn each_inbound_sample_is_taken_for_itself() {
    for sample in five() {
        let read = Inbound::read(&sample.envelope).unwrap();
        assert_eq!((read.name(), read.tenant().as_str()), (sample.name, "acme"));
    }
    let unknown = Envelope {
        topic: "control.environments.v2.environment-created".to_owned(),
        ..five().remove(1).envelope
    };
    let error = Inbound::read(&unknown).unwrap_err().to_string();
    assert!(error.contains("v2") && error.contains("map it"), "{error}");
}

#[test]
fn an_envelope_that_is_none_is_refused_with_the_fields_name() {
    let good = serde_json::to_value(&five().remove(0).envelope).unwrap();
    for field in ["specversion", "id", "source", "type", "time", "data"] {
        let mut without = good.clone();
        without.as_object_mut().unwrap().remove(field);
        let error = Envelope::parse(&serde_json::to_vec(&without).unwrap()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{field}`")), "{field}: {error}");
        assert!(!validator(&schema_for!(Envelope)).is_valid(&without), "{field}");
    }
    for (field, wrong) in [
        ("specversion", json!("0.3")),
        ("id", json!("")),
        ("id", json!("x".repeat(257))),
        ("id", json!("a\u{2067}")),
        ("source", json!("")),
        ("source", json!(" ")),
        ("source", json!("/a\nb")),
    ] {
        let mut other = good.clone();
        other[field] = wrong;
        let error = Envelope::parse(&serde_json::to_vec(&other).unwrap()).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
    assert!(Envelope::parse(b"not JSON").is_err() && Envelope::parse(b"").is_err());
}

#[test]
fn our_own_events_say_where_they_come_from() {
    for sample in all().into_iter().take(13) {
        let envelope = &sample.envelope;
        assert!(envelope.source.starts_with("/runtime-cloud/") && envelope.source.ends_with("Service"));
        assert_eq!(envelope.topic, sample.topic);
        assert_eq!(envelope.tenantid.as_ref().map(ToString::to_string), Some("acme".to_owned()));
        assert!(envelope.subject.as_ref().is_some_and(|s| !s.is_empty()));
    }
}
