//! What a request needs of its sender's role, in IAM's own words, and whether a policy gives it.

use serde_json::Value;

use crate::Recorded;

/// An action on a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// For instance `s3:GetObject`.
    pub action: String,
    /// Its ARN.
    pub resource: String,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.action, self.resource)
    }
}

const PLACE: &str = "us-east-1:000000000000";

fn right(action: &str, resource: String) -> Right {
    Right { action: action.to_owned(), resource }
}

impl Recorded {
    /// What it needs; nothing where it only made a connection.
    pub fn needs(&self) -> Vec<Right> {
        match self.service.as_str() {
            _ if self.operation == "ping" => vec![],
            "dynamodb" => self.of_tables(),
            "s3" => {
                let (bucket, key) = self.object();
                let key = key.split('?').next().unwrap_or_default();
                vec![match self.operation.as_str() {
                    "ListObjectsV2" | "HeadBucket" => {
                        right("s3:ListBucket", format!("arn:aws:s3:::{bucket}"))
                    }
                    of_bucket if of_bucket.starts_with("GetBucket") => {
                        right(&format!("s3:{of_bucket}"), format!("arn:aws:s3:::{bucket}"))
                    }
                    "HeadObject" => right("s3:GetObject", format!("arn:aws:s3:::{bucket}/{key}")),
                    other => right(&format!("s3:{other}"), format!("arn:aws:s3:::{bucket}/{key}")),
                }]
            }
            "sqs" => {
                let action = match self.operation.as_str() {
                    "SendMessageBatch" => "SendMessage",
                    "DeleteMessageBatch" => "DeleteMessage",
                    "ChangeMessageVisibilityBatch" => "ChangeMessageVisibility",
                    other => other,
                };
                let queue = self.field("QueueUrl").rsplit('/').next().unwrap_or_default();
                vec![right(&format!("sqs:{action}"), format!("arn:aws:sqs:{PLACE}:{queue}"))]
            }
            "events" => self.of_buses(),
            "lambda" => {
                let name = self.path.split("/functions/").nth(1).unwrap_or_default();
                let name = name.split('/').next().unwrap_or_default();
                vec![right("lambda:InvokeFunction", format!("arn:aws:lambda:{PLACE}:function:{name}"))]
            }
            "sts" => self.of_roles(),
            "ssm" => {
                let name = self.field("Name").trim_start_matches('/');
                vec![right(
                    &format!("ssm:{}", self.operation),
                    format!("arn:aws:ssm:{PLACE}:parameter/{name}"),
                )]
            }
            "secretsmanager" => {
                let name = if self.operation == "CreateSecret" { "Name" } else { "SecretId" };
                // Secrets Manager puts six letters of its own behind each name.
                let arn = format!("arn:aws:secretsmanager:{PLACE}:secret:{}-aBcDeF", self.field(name));
                vec![right(&format!("secretsmanager:{}", self.operation), arn)]
            }
            other => vec![right(&format!("{other}:{}", self.operation), "?".to_owned())],
        }
    }

    fn of_tables(&self) -> Vec<Right> {
        let table = |name: &str| format!("arn:aws:dynamodb:{PLACE}:table/{name}");
        let named =
            |value: &Value| value.get("TableName").and_then(Value::as_str).unwrap_or_default().to_owned();
        match self.operation.as_str() {
            "TransactWriteItems" => {
                let items = self.body.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
                items
                    .filter_map(|item| item.as_object()?.iter().next())
                    .map(|(kind, of)| {
                        let action = match kind.as_str() {
                            "ConditionCheck" => "ConditionCheckItem".to_owned(),
                            other => format!("{other}Item"),
                        };
                        right(&format!("dynamodb:{action}"), table(&named(of)))
                    })
                    .collect()
            }
            "BatchGetItem" => {
                let tables = self.body.get("RequestItems").and_then(Value::as_object);
                let names = tables.into_iter().flat_map(|all| all.keys());
                names.map(|name| right("dynamodb:BatchGetItem", table(name))).collect()
            }
            other => {
                let mut arn = table(&named(&self.body));
                if !self.field("IndexName").is_empty() {
                    arn = format!("{arn}/index/{}", self.field("IndexName"));
                }
                vec![right(&format!("dynamodb:{other}"), arn)]
            }
        }
    }

    fn of_buses(&self) -> Vec<Right> {
        let entries = self.body.get("Entries").and_then(Value::as_array).into_iter().flatten();
        let buses = entries.filter_map(|e| e.get("EventBusName").and_then(Value::as_str));
        buses
            .map(|bus| right("events:PutEvents", format!("arn:aws:events:{PLACE}:event-bus/{bus}")))
            .collect()
    }

    fn of_roles(&self) -> Vec<Right> {
        // This one everybody may.
        if self.operation == "GetCallerIdentity" {
            return vec![];
        }
        let role = self.field("RoleArn").to_owned();
        let mut needs = vec![right(&format!("sts:{}", self.operation), role.clone())];
        if self.body.get("Tags.member.1.Key").is_some() {
            needs.push(right("sts:TagSession", role));
        }
        needs
    }
}

/// Whether a policy's statements give a right. Conditions are not looked at.
pub fn gives(policy: &Value, right: &Right) -> bool {
    let statements = policy.get("Statement").map(all).unwrap_or_default();
    statements.into_iter().any(|statement| {
        let any = |name: &str, of: &str| {
            let patterns = statement.get(name).map(all).unwrap_or_default();
            patterns.iter().filter_map(|p| p.as_str()).any(|p| matches(p, of))
        };
        statement.get("Effect").and_then(Value::as_str) == Some("Allow")
            && any("Action", &right.action)
            && any("Resource", &right.resource)
    })
}

/// IAM lets one stand where many may.
fn all(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |many| many.iter().collect())
}

/// `*` stands for any text, `?` for one sign.
fn matches(pattern: &str, text: &str) -> bool {
    match (pattern.chars().next(), text.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            let rest = &pattern[1..];
            text.char_indices().map(|(at, _)| &text[at..]).chain([""]).any(|text| matches(rest, text))
        }
        (Some('?'), Some(c)) => matches(&pattern[1..], &text[c.len_utf8()..]),
        (Some(p), Some(c)) if p == c => matches(&pattern[p.len_utf8()..], &text[c.len_utf8()..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_gives_what_its_patterns_match_and_nothing_else() {
        let policy = json!({"Statement": [
            {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::b/rows/*"},
            {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"},
            {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": ["arn:s:x-??????"]}]});
        let may = |action: &str, resource: &str| gives(&policy, &right(action, resource.to_owned()));
        assert!(may("s3:GetObject", "arn:aws:s3:::b/rows/1/2"));
        assert!(!may("s3:GetObject", "arn:aws:s3:::b/other/1"));
        assert!(!may("s3:GetObject", "arn:aws:s3:::b2/rows/1"));
        assert!(!may("s3:PutObject", "arn:aws:s3:::b/rows/1"));
        assert!(may("secretsmanager:GetSecretValue", "arn:s:x-aBcDeF"));
        assert!(!may("secretsmanager:GetSecretValue", "arn:s:x-y-aBcDeF"));
    }
}
