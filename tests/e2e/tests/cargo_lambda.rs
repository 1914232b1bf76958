//! The functions under `cargo lambda`, with the messages of `functions/samples`, before an emulator that
//! `AWS_ENDPOINT_URL` alone names: as the README shows it.
#![expect(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::path::{Path, PathBuf};

use emulator::{CargoLambda, Emulator, Recorder};
use runtime_cloud_e2e::until;
use serde_json::json;

/// A manifest without tools, by its digest.
const MANIFEST: (&str, &str) =
    ("602e35a92eec4bc0a2ec6ae113f07bfc6933322fb69fe8dee416e5a67217e2a2", "{\"files\":[]}");

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../functions/samples").join(name)
}

/// A built function, before `cargo lambda`; what it asks of AWS is recorded.
fn function(name: &str, emulator: &Emulator, recorder: &Recorder) -> CargoLambda {
    // Beside the test's own program: target/<profile>/deps/x -> target/<profile>/planner.
    let test = std::env::current_exe().unwrap();
    let queues = format!("{}rc-", emulator.queue_url_prefix());
    let variables = [
        ("AWS_ENDPOINT_URL", &*recorder.url()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_LAMBDA_FUNCTION_NAME", name),
        ("RUNTIME_CLOUD_TABLES", "rc-"),
        ("RUNTIME_CLOUD_QUEUES", &queues),
        ("RUNTIME_CLOUD_BUS", "default"),
        ("RUNTIME_CLOUD_RECEIPTS_BUCKET", "rc-receipts"),
        ("RUNTIME_CLOUD_ARTIFACTS_BUCKET", "rc-artifacts"),
        ("RUNTIME_CLOUD_JOBS_BUCKET", "rc-jobs"),
        ("RUNTIME_CLOUD_TOOLS_BUCKET", "rc-tools"),
        ("RUNTIME_CLOUD_TOOLS", MANIFEST.0),
        ("RUNTIME_CLOUD_SECRETS", "rc"),
        ("RUNTIME_CLOUD_SECRETS_ARN", "arn:aws:secretsmanager:us-east-1:000000000000"),
        ("RUNTIME_CLOUD_PARAMETERS", "rc"),
        ("RUNTIME_CLOUD_RUNNER", "rc-runner"),
        ("RUNTIME_CLOUD_JOB_ROLE", "arn:aws:iam::000000000000:role/rc-job"),
    ];
    CargoLambda::before(&test.parent().unwrap().with_file_name(name), &variables)
}

#[test]
fn the_outbox_relays_its_sample() {
    let (emulator, recorder) = Emulator::recorded();
    let fifo = json!({"QueueName": "rc-Planner.fifo", "Attributes": {"FifoQueue": "true"}});
    emulator.sqs("CreateQueue", &fifo);
    let relay = function("outbox-relay", &emulator, &recorder);
    assert_eq!(relay.invoke(&sample("outbox-relay.stream.json")), json!({"batchItemFailures": []}));
    until("the message in the planner's queue", || {
        let url = format!("{}rc-Planner.fifo", emulator.queue_url_prefix());
        let asked = json!({"QueueUrl": url, "MaxNumberOfMessages": 1, "VisibilityTimeout": 0});
        emulator.sqs("ReceiveMessage", &asked)["Messages"].to_string().contains("shop-staging")
    });
    let told = recorder.recorded();
    assert!(told.iter().any(|r| r.operation == "PutEvents" && r.function == "outbox-relay"), "{told:?}");
}

#[test]
fn the_planner_looks_for_the_run_of_its_sample() {
    let (emulator, recorder) = Emulator::recorded();
    for table in ["DeploymentSpecifications", "ProvisioningRuns", "Environments", "EnvironmentSlots"] {
        table_of(&emulator, table, "key");
    }
    table_of(&emulator, "Counters", "counter");
    for bucket in ["receipts", "artifacts", "jobs", "tools"] {
        emulator.put_s3(&format!("rc-{bucket}"), "");
    }
    emulator.put_s3(&format!("rc-tools/tools/{}", MANIFEST.0), MANIFEST.1);
    for queue in ["rc-Planner.fifo", "rc-Planner-dead.fifo"] {
        emulator.sqs("CreateQueue", &json!({"QueueName": queue, "Attributes": {"FifoQueue": "true"}}));
    }
    let planner = function("planner", &emulator, &recorder);
    let answer = planner.invoke(&sample("planner.sqs.json"));
    assert!(answer["batchItemFailures"].is_array(), "{answer}");
    let told = recorder.recorded();
    let looked =
        |r: &&emulator::Recorded| r.operation == "GetItem" && r.field("TableName") == "rc-ProvisioningRuns";
    assert!(told.iter().any(|r| looked(&r) && r.function == "planner"), "{told:?}");
}

fn table_of(emulator: &Emulator, name: &str, key: &str) {
    let table = json!({"TableName": format!("rc-{name}"), "BillingMode": "PAY_PER_REQUEST",
                       "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
                       "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}]});
    emulator.dynamodb("CreateTable", &table);
}
