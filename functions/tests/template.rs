//! template.yaml says what the catalogue says, and gives no function more than it needs.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test ends by panicking"
)]

use std::process::Command;

use application::catalog::{
    APPLY_APPROVAL, HANDLERS, PROVISION_BASELINE, PROVISION_PROMOTION, Trigger, WORKERS,
};
use events::{ApprovalDecided, EnvironmentCreated, InboundData, PromotionApproved};
use runtime_cloud_functions::operations::KINDS;
use serde_norway::Value;

/// The template without what CloudFormation's short functions mean: `!Ref X` reads as X, and a choice as its first.
fn plain(value: Value) -> Value {
    match value {
        Value::Tagged(tagged) if tagged.tag == "If" => {
            plain(tagged.value.as_sequence().and_then(|s| s.get(1)).cloned().unwrap_or_default())
        }
        Value::Tagged(tagged) => plain(tagged.value),
        Value::Sequence(all) => Value::Sequence(all.into_iter().map(plain).collect()),
        Value::Mapping(map) => Value::Mapping(map.into_iter().map(|(k, v)| (k, plain(v))).collect()),
        other => other,
    }
}

fn file() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml").to_owned()
}

fn resources() -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(file()).unwrap();
    let template = plain(serde_norway::from_str(&text).unwrap());
    let resources = template.get("Resources").unwrap().as_mapping().unwrap().clone();
    resources.into_iter().map(|(name, r)| (name.as_str().unwrap().to_owned(), r)).collect()
}

fn properties(name: &str) -> Value {
    let found = resources().into_iter().find(|(n, _)| n == name);
    let (_, resource) = found.unwrap_or_else(|| panic!("template.yaml has no {name}"));
    resource.get("Properties").cloned().unwrap_or_default()
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, key| value.get(key).unwrap_or(&Value::Null))
}

#[test]
fn workers_have_their_queue_their_group_and_their_concurrency() {
    for row in WORKERS {
        let function = properties(&format!("{}Function", row.name));
        let queue = properties(&format!("{}Queue", row.name));
        assert_eq!(at(&queue, "FifoQueue"), &Value::Bool(true), "{}", row.name);
        assert_eq!(at(&queue, "RedrivePolicy.maxReceiveCount"), &Value::from(row.deliveries));
        assert_eq!(at(&properties(&format!("{}Dead", row.name)), "FifoQueue"), &Value::Bool(true));
        let mapping = at(&function, &format!("Events.{}.Properties", row.name));
        // One message: those behind a poisoned one don't share its attempts (Rule 10).
        assert_eq!(at(mapping, "BatchSize"), &Value::from(1), "{}", row.name);
        let at_once = at(mapping, "ScalingConfig.MaximumConcurrency");
        assert_eq!(at_once, &Value::from(row.concurrency), "{}", row.name);
        if let Trigger::Schedule(_) = row.trigger {
            assert_eq!(at(&function, "Events.Tick.Properties.Schedule"), &Value::from("rate(1 minute)"));
        }
    }
}

#[test]
fn handlers_have_their_rule_and_their_queue() {
    let topics = [
        (PROVISION_PROMOTION.name, PromotionApproved::TOPIC),
        (PROVISION_BASELINE.name, EnvironmentCreated::TOPIC),
        (APPLY_APPROVAL.name, ApprovalDecided::TOPIC),
    ];
    assert_eq!(HANDLERS.len(), topics.len());
    let function = properties("InboundEventsFunction");
    for (name, topic) in topics {
        let rule = properties(&format!("{name}Rule"));
        assert_eq!(at(&rule, "EventPattern.detail-type"), &Value::Sequence(vec![topic.into()]), "{name}");
        let mapping = at(&function, &format!("Events.{name}.Properties"));
        let reported = Value::Sequence(vec!["ReportBatchItemFailures".into()]);
        assert_eq!(at(mapping, "FunctionResponseTypes"), &reported, "{name}");
        properties(&format!("{name}Dead"));
    }
}

#[test]
fn rows_and_receipts_are_kept_safe() {
    let mut streams = vec![];
    for (name, resource) in resources() {
        let properties = resource.get("Properties").cloned().unwrap_or_default();
        match resource.get("Type").and_then(Value::as_str) {
            Some("AWS::DynamoDB::Table") => {
                let kept = at(&properties, "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled");
                assert_eq!(kept, &Value::Bool(true), "{name}");
                assert!(!at(&properties, "DeletionProtectionEnabled").is_null(), "{name}");
                assert!(!at(&properties, "SSESpecification.KMSMasterKeyId").is_null(), "{name}");
                if !at(&properties, "StreamSpecification").is_null() {
                    streams.push(name.trim_end_matches("Table").to_owned());
                }
            }
            Some("AWS::S3::Bucket") => {
                assert!(!at(&properties, "BucketEncryption").is_null(), "{name}");
                let policy = at(&self::properties(&format!("{name}Policy")), "PolicyDocument").clone();
                assert!(serde_norway::to_string(&policy).unwrap().contains("aws:SecureTransport"), "{name}");
            }
            Some(_) | None => {}
        }
    }
    assert_eq!(at(&properties("ReceiptsBucket"), "ObjectLockEnabled"), &Value::Bool(true));
    for table in ["ClaimsTable", "MessagesTable"] {
        assert_eq!(at(&properties(table), "TimeToLiveSpecification.AttributeName"), &Value::from("ttl"));
    }
    // Each table whose items carry letters is read by the outbox.
    let relay = properties("OutboxRelayFunction");
    for table in &streams {
        assert!(!at(&relay, &format!("Events.{table}")).is_null(), "{table}");
    }
    // And each is looked at by the doctor.
    let looked_at: Vec<String> = KINDS.map(|kind| kind.table().to_owned()).into();
    assert_eq!(streams, looked_at);
}

#[test]
fn there_is_an_api_where_there_is_an_issuer() {
    let of_the_api: Vec<_> = resources().into_iter().filter(|(name, _)| name.starts_with("Api")).collect();
    assert_eq!(of_the_api.len(), 9);
    for (name, resource) in of_the_api {
        assert_eq!(at(&resource, "Condition"), &Value::from("HasApi"), "{name}");
    }
    assert_eq!(at(&properties("ApiLogs"), "RetentionInDays"), &Value::from(365));
    // Whoever may call it from anywhere may do so by its URL alone.
    assert_eq!(at(&properties("ApiMayBeAsked"), "FunctionUrlAuthType"), &Value::from("NONE"));
    assert_eq!(at(&properties("ApiMayBeInvoked"), "InvokedViaFunctionUrl"), &Value::Bool(true));
    // It reads credentials of repositories, and starts no run itself.
    let policies = serde_norway::to_string(at(&properties("ApiFunctionRole"), "Policies")).unwrap();
    let secrets: Vec<&str> = policies.lines().filter(|l| l.contains(":secret:")).collect();
    assert!(matches!(secrets.as_slice(), [one] if one.ends_with("/values/*/git.3A*")), "{secrets:?}");
    for action in ["lambda:", "sts:", "secretsmanager:Put", "dynamodb:Scan"] {
        assert!(!policies.contains(action), "{action}: {policies}");
    }
}

#[test]
fn a_task_holds_nothing_but_its_tools_and_what_was_sealed_for_its_job() {
    let task = properties("RunnerTask");
    let container = &at(&task, "ContainerDefinitions").as_sequence().unwrap()[0];
    assert_eq!(at(container, "Name"), &Value::from(aws::CONTAINER));
    assert_eq!(at(container, "ReadonlyRootFilesystem"), &Value::Bool(true));
    assert_ne!(at(container, "User"), &Value::from("0"));
    let policies = at(&properties("RunnerTaskRole"), "Policies").clone();
    let statements = at(&policies.as_sequence().unwrap()[0], "PolicyDocument.Statement").clone();
    let actions: Vec<_> = statements
        .as_sequence()
        .unwrap()
        .iter()
        .flat_map(|s| at(s, "Action").as_sequence().unwrap().clone())
        .collect();
    assert_eq!(actions, [Value::from("s3:GetObject"), Value::from("kms:Decrypt")]);
    // It opens what was sealed for a job, and no row, receipt or secret.
    let decrypt = &statements.as_sequence().unwrap()[1];
    assert_eq!(at(decrypt, "Condition.Null")["kms:EncryptionContext:job"], Value::from("false"));
    // Its end is told to the queue that wakes who ordered it.
    let rule = properties("RunnerStoppedRule");
    assert_eq!(at(&rule, "EventPattern.detail.lastStatus"), &Value::Sequence(vec!["STOPPED".into()]));
    assert_eq!(at(&rule, "EventPattern.detail-type"), &Value::Sequence(vec!["ECS Task State Change".into()]));
    let target = &at(&rule, "Targets").as_sequence().unwrap()[0];
    assert_eq!(at(target, "Arn"), &Value::from("RunnerFinishedQueue.Arn"));
}

#[test]
fn no_function_may_do_something_to_everything() {
    for (name, resource) in resources() {
        if resource.get("Type").and_then(Value::as_str) != Some("AWS::Serverless::Function") {
            continue;
        }
        // A role of its own: one that SAM makes may read every queue and write every log of the account.
        let role = format!("{name}Role");
        assert_eq!(at(&resource, "Properties.Role"), &Value::from(format!("{role}.Arn")), "{name}");
        for policy in at(&properties(&role), "Policies").as_sequence().unwrap() {
            for statement in at(policy, "PolicyDocument.Statement").as_sequence().unwrap() {
                let text = serde_norway::to_string(statement).unwrap();
                let actions = at(statement, "Action").as_sequence().unwrap();
                let of_nothing = |a: &Value| {
                    a.as_str().is_some_and(|a| a.starts_with("xray:") || a == "dynamodb:ListStreams")
                };
                let everything = at(statement, "Resource") == &Value::from("*");
                assert_eq!(everything, actions.iter().all(of_nothing), "{name}: {text}");
                assert!(!at(statement, "Resource").is_null(), "{name}: {text}");
                let wide = |a: &&Value| a.as_str().is_none_or(|a| a.contains('*'));
                assert_eq!(actions.iter().find(wide), None, "{name}: {text}");
            }
        }
    }
    // The runner holds nothing but its tools: what a job may do comes with the job.
    let runner = serde_norway::to_string(at(&properties("RunnerFunctionRole"), "Policies")).unwrap();
    for service in ["dynamodb", "sqs", "events", "secretsmanager", "sts"] {
        assert!(!runner.contains(&format!("{service}:")), "{service}: {runner}");
    }
}

#[test]
fn cfn_lint_finds_nothing() {
    let folder = std::env::var("RUNTIME_CLOUD_TEST_EMULATOR")
        .unwrap_or_else(|_| panic!("`cargo xtask test` names the folder"));
    let linted = Command::new(std::path::Path::new(&folder).join("cfn-lint")).arg(file()).output().unwrap();
    assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stdout));
}
