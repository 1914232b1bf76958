//! Records of a table's stream, as Lambda brings them to the relay.

use serde_json::{Value, json};

/// A letter that is an event.
pub fn event(id: &str, data: &Value) -> Value {
    let envelope = json!({"specversion": "1.0", "id": id, "source": "/runtime-cloud/Test", "type": "test.relayed.v1.told",
                          "time": "2026-01-01T00:00:00Z", "data": data});
    json!({"id": id, "what": "event", "envelope": envelope})
}

/// An item that `commit` wrote over what `before` had written, with the letters that it carries.
pub fn record(number: usize, commit: &str, before: Option<&str>, letters: &[Value]) -> Value {
    let letters = Value::from(letters.to_vec()).to_string();
    let number = number.to_string();
    let image = |commit: &str| json!({"key": {"S": "k"}, "commit": {"S": commit}, "letters": {"S": letters}});
    let mut change = json!({"ApproximateCreationDateTime": 1_700_000_000, "SequenceNumber": number, "SizeBytes": 1,
                            "StreamViewType": "NEW_AND_OLD_IMAGES", "Keys": {"key": {"S": "k"}},
                            "NewImage": image(commit)});
    if let (Some(before), Some(change)) = (before, change.as_object_mut()) {
        change.insert("OldImage".to_owned(), image(before));
    }
    json!({"eventID": number, "eventName": "MODIFY", "eventSource": "aws:dynamodb", "awsRegion": "us-east-1",
           "dynamodb": change})
}
