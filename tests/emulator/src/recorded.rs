//! One request, as AWS's own logs would name it.

use axum::body::Bytes;
use axum::http::{StatusCode, request};
use serde_json::Value;

use crate::write_units;

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The function that sent it, as its user agent says.
    pub function: String,
    /// The key that it was signed with, without the secret.
    pub access_key: String,
    /// The service: `dynamodb`, `s3`.
    pub service: String,
    /// The operation: `PutItem`; `ping` where only a connection was made.
    pub operation: String,
    /// The path and the query.
    pub path: String,
    /// What was asked, where the service speaks JSON or forms. S3's bodies are not kept.
    pub body: Value,
    /// The key that STS gave out with this answer.
    pub gave_key: Option<String>,
    /// The answer's status.
    pub status: u16,
    /// The connection that it came by.
    pub connection: u16,
    /// Write units that it costs on DynamoDB.
    pub write_units: u64,
}

impl Recorded {
    /// A field of what was asked, as text.
    pub fn field(&self, name: &str) -> &str {
        self.body.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The bucket and the key of S3.
    pub fn object(&self) -> (&str, &str) {
        let path = self.path.split('?').next().unwrap_or_default().trim_start_matches('/');
        path.split_once('/').unwrap_or((path, ""))
    }

    /// The host that it would go to on AWS: there, each service and each bucket is one.
    pub fn host(&self) -> String {
        match self.service.as_str() {
            "s3" => format!("s3 {}", self.object().0),
            other => other.to_owned(),
        }
    }

    /// Whether it only made a connection, or read what a function reads once.
    pub fn is_init(&self) -> bool {
        let (bucket, key) = self.object();
        self.operation == "ping"
            || self.body.to_string().contains("\"warm\"")
            || self.service == "s3" && (key.ends_with("warm") || bucket.contains("-tools-"))
    }
}

pub(crate) fn read(
    asked: &request::Parts,
    body: &Bytes,
    status: StatusCode,
    answer: &Bytes,
    connection: u16,
) -> Recorded {
    let header = |name: &str| asked.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let scope = header("authorization").split_once("Credential=").map_or("", |(_, rest)| rest);
    let scope: Vec<&str> = scope.split(',').next().unwrap_or_default().split('/').collect();
    let service = scope.get(3).copied().unwrap_or_default();
    let path = asked.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    let target = header("x-amz-target").rsplit('.').next().unwrap_or_default();
    let body = match service {
        "s3" | "lambda" => Value::Null,
        "sts" => form(body),
        _ => serde_json::from_slice(body).unwrap_or_default(),
    };
    let operation = match service {
        _ if path == "/ping" => "ping".to_owned(),
        "s3" => object_operation(asked.method.as_str(), &path).to_owned(),
        "sts" => body.get("Action").and_then(Value::as_str).unwrap_or_default().to_owned(),
        "lambda" if path.ends_with("/invocations") => "Invoke".to_owned(),
        _ if target.is_empty() => format!("{} {path}", asked.method),
        _ => target.to_owned(),
    };
    let agents = format!("{} {}", header("x-amz-user-agent"), header("user-agent"));
    let function = agents.split_whitespace().find_map(|part| part.strip_prefix("app/"));
    Recorded {
        function: function.unwrap_or_default().to_owned(),
        access_key: scope.first().copied().unwrap_or_default().to_owned(),
        gave_key: between(&String::from_utf8_lossy(answer), "<AccessKeyId>", "<")
            .filter(|_| service == "sts"),
        write_units: if service == "dynamodb" { write_units::of(&operation, &body) } else { 0 },
        service: service.to_owned(),
        status: status.as_u16(),
        operation,
        path,
        body,
        connection,
    }
}

fn object_operation(method: &str, path: &str) -> &'static str {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let of_bucket = !path.trim_matches('/').contains('/');
    match method {
        "GET" if of_bucket && query.contains("list-type=2") => "ListObjectsV2",
        "GET" if of_bucket && query.contains("versioning") => "GetBucketVersioning",
        "GET" if of_bucket && query.contains("object-lock") => "GetBucketObjectLockConfiguration",
        "GET" => "GetObject",
        "HEAD" if of_bucket => "HeadBucket",
        "HEAD" => "HeadObject",
        "PUT" if of_bucket => "CreateBucket",
        "PUT" => "PutObject",
        "DELETE" => "DeleteObject",
        _ => "other",
    }
}

fn between(text: &str, begin: &str, end: &str) -> Option<String> {
    let (_, rest) = text.split_once(begin)?;
    Some(rest.split_once(end)?.0.to_owned())
}

/// A form, as an object of texts.
fn form(body: &[u8]) -> Value {
    let text = String::from_utf8_lossy(body);
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let decoded = pairs.map(|(name, value)| (plain(name), Value::String(plain(value))));
    Value::Object(decoded.collect())
}

fn plain(text: &str) -> String {
    let text = text.replace('+', " ");
    let (mut bytes, mut rest) = (vec![], text.as_bytes());
    while let [first, tail @ ..] = rest {
        let code = match (first, tail) {
            (b'%', [a, b, ..]) => u8::from_str_radix(&String::from_utf8_lossy(&[*a, *b]), 16).ok(),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
