//! No role allows what its function's code can't call: read from the template and from the code, the calls of the SDK
//! that each function's wiring reaches. (That each call is allowed, a run on an emulator shows.)
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test ends by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_norway::Value;

/// A call of the SDK, and what a role has to allow for it.
const CALLS: &[(&str, &[&str])] = &[
    ("assume_role", &["sts:AssumeRole", "sts:TagSession"]),
    ("batch_get_item", &["dynamodb:BatchGetItem"]),
    ("change_message_visibility", &["sqs:ChangeMessageVisibility"]),
    ("create_secret", &["secretsmanager:CreateSecret"]),
    ("decrypt", &["kms:Decrypt"]),
    ("delete_message", &["sqs:DeleteMessage"]),
    ("delete_item", &["dynamodb:DeleteItem"]),
    ("describe_table", &["dynamodb:DescribeTable"]),
    ("describe_tasks", &["ecs:DescribeTasks"]),
    ("encrypt", &["kms:Encrypt"]),
    ("get_bucket_versioning", &["s3:GetBucketVersioning"]),
    ("get_item", &["dynamodb:GetItem"]),
    ("get_object", &["s3:GetObject"]),
    ("get_object_lock_configuration", &["s3:GetBucketObjectLockConfiguration"]),
    ("get_parameter", &["ssm:GetParameter"]),
    ("get_queue_attributes", &["sqs:GetQueueAttributes"]),
    ("get_secret_value", &["secretsmanager:GetSecretValue"]),
    ("head_object", &["s3:GetObject"]),
    ("invoke", &["lambda:InvokeFunction"]),
    ("list_objects_v2", &["s3:ListBucket"]),
    ("put_events", &["events:PutEvents"]),
    ("put_item", &["dynamodb:PutItem"]),
    ("put_object", &["s3:PutObject"]),
    ("put_parameter", &["ssm:PutParameter"]),
    ("put_secret_value", &["secretsmanager:PutSecretValue"]),
    ("query", &["dynamodb:Query"]),
    ("receive_message", &["sqs:ReceiveMessage"]),
    // A task is started in the roles of its definition, and with tags.
    ("run_task", &["ecs:RunTask", "ecs:TagResource", "iam:PassRole"]),
    ("scan", &["dynamodb:Scan"]),
    ("send_message", &["sqs:SendMessage"]),
    ("send_message_batch", &["sqs:SendMessage"]),
    ("stop_task", &["ecs:StopTask"]),
    ("transact_write_items", &["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"]),
    ("update_item", &["dynamodb:UpdateItem"]),
];

/// Named by no call: what lies encrypted in a table, a bucket or a queue is opened and closed with the stack's key; and
/// what isn't there reads as missing only to who may list.
const WITH_ANY: &[&str] = &["kms:Decrypt", "kms:GenerateDataKey", "s3:ListBucket"];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn sources(folder: &str) -> Vec<String> {
    let files = std::fs::read_dir(here(folder)).unwrap().map(|e| e.unwrap().path());
    // What only makes connections asks for nothing: its calls are turned into a bare ping.
    let calls = |p: &PathBuf| p.extension().is_some_and(|e| e == "rs") && !p.ends_with("warm.rs");
    files.filter(calls).map(|p| read(&p)).collect()
}

fn mentions(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(word) && !after.is_some_and(word)
    })
}

/// What a role has to allow for each type of infra/aws, and for each function that belongs to none, by its name.
fn adapters() -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut adapters = BTreeMap::new();
    let sources = sources("../infra/aws/src");
    for text in &sources {
        let calls = CALLS.iter().filter(|(call, _)| text.contains(&format!(".{call}()")));
        let actions: BTreeSet<_> = calls.flat_map(|(_, actions)| actions.iter().copied()).collect();
        for line in text.lines() {
            let declared = ["pub struct ", "pub async fn "].iter().find_map(|begin| line.strip_prefix(begin));
            if let Some(name) = declared.and_then(|l| l.split([' ', ';', '(']).next()) {
                adapters.insert(name.to_owned(), actions.clone());
            }
        }
    }
    // Rows write through a file of their own, and keep long bodies in artifacts.
    let writes = read(&here("../infra/aws/src/dynamo_write.rs"));
    let more: Vec<_> = CALLS.iter().filter(|(call, _)| writes.contains(&format!(".{call}()"))).collect();
    let rows = adapters.get_mut("DynamoRows").unwrap();
    rows.extend(more.iter().flat_map(|(_, actions)| actions.iter().copied()));
    adapters
}

/// The functions of this crate, by name: their text.
fn functions() -> BTreeMap<String, String> {
    let mut functions = BTreeMap::new();
    for text in sources("src") {
        let mut name: Option<String> = None;
        for line in text.lines() {
            let declared = line.split_once("fn ").filter(|(before, _)| {
                before.split_whitespace().all(|w| ["pub", "async", "const"].contains(&w))
            });
            if let Some((_, rest)) = declared {
                name = rest.split(['(', '<']).next().map(str::to_owned);
            }
            if let Some(name) = &name {
                let body = functions.entry(name.clone()).or_insert_with(String::new);
                body.push_str(line);
                body.push('\n');
            }
        }
    }
    functions
}

/// Everything that a program's wiring reaches.
fn reached(program: &str) -> BTreeSet<&'static str> {
    let (adapters, functions) = (adapters(), functions());
    let mut seen = BTreeSet::new();
    let mut texts = vec![read(&here(&format!("src/bin/{program}.rs")))];
    let mut actions = BTreeSet::new();
    while let Some(text) = texts.pop() {
        for (name, allowed) in &adapters {
            if mentions(&text, name) {
                actions.extend(allowed);
            }
        }
        for (name, body) in &functions {
            if mentions(&text, name) && seen.insert(name.clone()) {
                texts.push(body.clone());
            }
        }
    }
    actions
}

/// What the roles of the template allow, by their function's program: without what Lambda itself does in them, which is
/// to keep logs and traces, and to read the queues and streams that wake the function.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    const LOGS: &[&str] = &[
        "logs:CreateLogGroup",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "xray:PutTraceSegments",
        "xray:PutTelemetryRecords",
    ];
    const QUEUES: &[&str] = &["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"];
    const STREAMS: &[&str] = &[
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
    ];
    let template: Value = serde_norway::from_str(&read(&here("../template.yaml"))).unwrap();
    let mut allowed = BTreeMap::new();
    for (name, resource) in template["Resources"].as_mapping().unwrap() {
        if resource["Type"] != "AWS::Serverless::Function" {
            continue;
        }
        let code = resource["Properties"]["CodeUri"].as_str().unwrap();
        let program = code.trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
        let mut actions = BTreeSet::new();
        let role = &template["Resources"][format!("{}Role", name.as_str().unwrap()).as_str()];
        collect(&role["Properties"]["Policies"], &mut actions);
        assert!(!actions.is_empty(), "{program}");
        let mut by_lambda: BTreeSet<&str> = LOGS.iter().copied().collect();
        for (_, event) in resource["Properties"]["Events"].as_mapping().into_iter().flatten() {
            match event["Type"].as_str().unwrap() {
                "SQS" => by_lambda.extend(QUEUES),
                "DynamoDB" => by_lambda.extend(STREAMS),
                _ => {}
            }
        }
        for action in by_lambda {
            assert!(actions.remove(action), "{program}: {action}");
        }
        allowed.insert(program, actions);
    }
    allowed
}

/// Every `Action` below a value.
fn collect(value: &Value, actions: &mut BTreeSet<String>) {
    match value {
        Value::Tagged(tagged) => collect(&tagged.value, actions),
        Value::Sequence(all) => all.iter().for_each(|v| collect(v, actions)),
        Value::Mapping(map) => {
            for (key, value) in map {
                if key == "Action" {
                    let named = value.as_sequence().unwrap().iter().map(|a| a.as_str().unwrap().to_owned());
                    actions.extend(named);
                } else {
                    collect(value, actions);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn no_role_allows_what_its_function_never_calls() {
    let allowed = allowed();
    assert!(allowed.len() >= 6, "{allowed:?}");
    for (program, actions) in allowed {
        let mut reached = reached(&program);
        assert!(!reached.is_empty(), "{program}");
        reached.extend(WITH_ANY);
        let never: Vec<_> = actions.iter().filter(|a| !reached.contains(a.as_str())).collect();
        assert!(never.is_empty(), "{program} never calls {never:?}");
    }
}

#[test]
fn every_call_of_the_sdk_is_known_to_this_test() {
    // A builder ends in `.send()`: its first method without arguments is the call.
    for text in sources("../infra/aws/src") {
        for piece in text.split(".send()").take_while(|p| p.len() < text.len()) {
            let after_client = [
                ".client\n",
                ".client.",
                "self.ecs",
                "self.kms",
                "self.sts",
                ".lambda",
                "kms\n",
                "self.counts",
            ];
            let Some(at) = after_client.iter().filter_map(|c| piece.rfind(c)).max() else { continue };
            let Some(call) = piece[at..].split('.').skip(1).find(|p| p.trim_end().ends_with("()")) else {
                continue;
            };
            let call = call.trim().trim_end_matches("()").trim();
            let known = CALLS.iter().any(|(name, _)| *name == call);
            assert!(known || ["client", "clone"].contains(&call), "{call} is missing in CALLS");
        }
    }
}
