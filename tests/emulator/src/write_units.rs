//! What a write costs, by AWS's own rule: a unit for each kilobyte of the item, begun ones count; twice as much in a
//! transaction; and one more for each index that is written. The emulator's own figure is wrong above 4 KB.
//!
//! It is an upper bound where the request alone can't tell: each put counts as one that changes every index that its
//! item is in, and an update counts as one of a small item.

use serde_json::{Map, Value};

const KILOBYTE: usize = 1024;
/// The attributes that the tables' indexes are of, for each index; each holds keys alone.
const INDEXES: &[&[&str]] = &[&["tenant"], &["tenant", "begun"], &["owner", "begun"], &["living"]];

/// Write units of a request.
pub fn of(operation: &str, body: &Value) -> u64 {
    match operation {
        "PutItem" => put(body, 1),
        "UpdateItem" | "DeleteItem" => 1,
        "TransactWriteItems" => {
            let items = body.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
            items.map(|item| item.get("Put").map_or(2, |put| self::put(put, 2))).sum()
        }
        _ => 0,
    }
}

/// The same without what letters add to the items: what an outbox of no cost would cost.
pub fn without_letters(operation: &str, body: &Value) -> u64 {
    let mut body = body.clone();
    forget_letters(&mut body);
    of(operation, &body)
}

fn forget_letters(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(item)) = fields.get_mut("Item") {
                item.remove("letters");
            }
            fields.values_mut().for_each(forget_letters);
        }
        Value::Array(all) => all.iter_mut().for_each(forget_letters),
        _ => {}
    }
}

fn put(put: &Value, times: u64) -> u64 {
    let Some(item) = put.get("Item").and_then(Value::as_object) else { return 0 };
    let units = size(item).div_ceil(KILOBYTE).max(1);
    let indexes = INDEXES.iter().filter(|names| names.iter().all(|name| item.contains_key(*name))).count();
    u64::try_from(units).unwrap_or(u64::MAX) * times + u64::try_from(indexes).unwrap_or_default()
}

/// Bytes of an item: its attributes' names and what they hold.
pub fn size(item: &Map<String, Value>) -> usize {
    item.iter().map(|(name, value)| name.len() + held(value)).sum()
}

fn held(value: &Value) -> usize {
    let Some((kind, inside)) = value.as_object().and_then(|o| o.iter().next()) else { return 0 };
    let text = || inside.as_str().unwrap_or_default();
    match kind.as_str() {
        "S" => text().len(),
        // Two digits a byte, and one more.
        "N" => text().len().div_ceil(2) + 1,
        "B" => text().len() * 3 / 4,
        "M" => 3 + inside.as_object().map_or(0, |m| size(m) + m.len()),
        "L" => 3 + inside.as_array().map_or(0, |l| l.iter().map(|v| held(v) + 1).sum()),
        "SS" | "NS" | "BS" => {
            inside.as_array().map_or(0, |l| l.iter().filter_map(Value::as_str).map(str::len).sum())
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_put_costs_its_kilobytes_and_its_indexes() {
        let body = |bytes: usize| json!({"Item": {"key": {"S": "k"}, "tenant": {"S": "t"}, "b": {"S": "x".repeat(bytes)}}});
        // Names and values: key k tenant t b.
        assert_eq!(of("PutItem", &body(1024 - 12)), 1 + 1);
        assert_eq!(of("PutItem", &body(1024 - 11)), 2 + 1);
        assert_eq!(of("PutItem", &body(10 * 1024)), 11 + 1);
    }

    #[test]
    fn a_transaction_costs_twice_its_items() {
        let item = json!({"key": {"S": "k"}, "living": {"S": "l"}, "tenant": {"S": "t"}, "owner": {"S": "o"}, "letters": {"S": "x".repeat(2000)}});
        let body =
            json!({"TransactItems": [{"Put": {"Item": item}}, {"ConditionCheck": {}}, {"Update": {}}]});
        assert_eq!(of("TransactWriteItems", &body), (2 * 2 + 2) + 2 + 2);
        assert_eq!(without_letters("TransactWriteItems", &body), (2 + 2) + 2 + 2);
        assert_eq!(of("GetItem", &json!({"Item": item})), 0);
    }
}
