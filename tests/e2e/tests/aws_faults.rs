//! What goes wrong around the functions: messages that nobody can read, events that come again, a bus that takes a part,
//! records in no order. The same stack as in production, deployed to an emulator.
#![expect(
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test ends by panicking, and makes its own ids"
)]

use std::sync::LazyLock;
use std::time::Duration;

use emulator::{Emulator, Recorded, Recorder};
use runtime_cloud_e2e::relayed::{event, record};
use runtime_cloud_e2e::stack::{STACK, Stack, TWO_FILES, is};
use runtime_cloud_e2e::{Repository, poll, until};
use serde_json::{Value, json};
use uuid::Uuid;

/// Deployed once for all cases.
static DEPLOYED: LazyLock<(Stack, Recorder)> = LazyLock::new(|| {
    let (emulator, recorder) = Emulator::recorded();
    (Stack::deploy(emulator), recorder)
});

fn fresh() -> String {
    Uuid::new_v4().to_string()
}

/// What the relay answers to a batch.
fn relay(records: &[Value]) -> Value {
    let name = format!("{STACK}-outbox-relay");
    DEPLOYED.0.emulator.invoke(&name, &json!({"Records": records}))
}

/// Ids of the events that were sent to the bus, call by call, of those that a case made.
fn sent(mine: &[&str]) -> Vec<Vec<String>> {
    let ids = |request: &Recorded| -> Vec<String> {
        let entries = request.body["Entries"].as_array().cloned().unwrap_or_default();
        let detail = |e: &Value| serde_json::from_str::<Value>(e["Detail"].as_str()?).ok();
        let id = |e: &Value| Some(detail(e)?["id"].as_str()?.to_owned());
        entries.iter().filter_map(id).filter(|id| mine.contains(&id.as_str())).collect()
    };
    let all = DEPLOYED.1.recorded();
    all.iter().filter(|r| r.operation == "PutEvents").map(ids).filter(|ids| !ids.is_empty()).collect()
}

/// The reason of a dead letter of the relay that holds a text, in its body or in its reason.
fn reason(holds: &str) -> Option<String> {
    let found = DEPLOYED.0.dead("OutboxRelay").into_iter().find(|m| m.to_string().contains(holds))?;
    Some(found["MessageAttributes"]["reason"]["StringValue"].as_str()?.to_owned())
}

#[test]
fn a_poisoned_message_is_put_aside_and_those_behind_it_are_handled() {
    let (stack, _) = &*DEPLOYED;
    stack.environment("poisoned", "development");
    let url = format!("{}{STACK}-Planner.fifo", stack.emulator.queue_url_prefix());
    let poison = json!({"QueueUrl": url, "MessageBody": "{\"poison\": 1}", "MessageGroupId": "acme/poisoned",
                        "MessageDeduplicationId": fresh()});
    stack.emulator.sqs("SendMessage", &poison);
    let repository = Repository::new();
    let commit = repository.program(TWO_FILES);
    stack.promote(&Stack::promotion("poisoned", &repository, &commit, false));
    stack.run_in("poisoned", "Applied");
    let dead = poll("the dead letter", || {
        stack.dead("Planner.fifo").into_iter().find(|m| m["Body"].to_string().contains("poison"))
    });
    let reason = dead["MessageAttributes"]["reason"]["StringValue"].as_str().unwrap_or_default();
    assert!(reason.contains("no message for Planner") && reason.contains("tenant"), "{dead}");
}

#[test]
fn what_somebody_else_has_meanwhile_is_never_said_to_be_done() {
    let (stack, _) = &*DEPLOYED;
    for (function, queue) in [
        ("planner", "Planner.fifo"),
        ("inbound-events", "ProvisionPromotion"),
        ("inbound-events", "RunnerFinished"),
    ] {
        let id = fresh();
        let lost = json!({"messageId": id, "receiptHandle": "of-before", "body": format!("rubbish {id}"),
                          "attributes": {"ApproximateReceiveCount": "1", "MessageGroupId": "acme/lost"},
                          "eventSource": "aws:sqs", "awsRegion": "us-east-1",
                          "eventSourceARN": format!("arn:aws:sqs:us-east-1:000000000000:{STACK}-{queue}")});
        let answer = stack.emulator.invoke(&format!("{STACK}-{function}"), &json!({"Records": [lost]}));
        assert_eq!(answer, json!({"batchItemFailures": [{"itemIdentifier": id}]}), "{queue}");
        let dead = stack.dead(queue);
        assert!(!dead.iter().any(|letter| letter.to_string().contains(&id)), "{queue}");
    }
}

#[test]
fn what_comes_again_hours_later_changes_nothing() {
    let (stack, _) = &*DEPLOYED;
    stack.environment("again", "development");
    let repository = Repository::new();
    let commit = repository.program(TWO_FILES);
    let promotion = Stack::promotion("again", &repository, &commit, false);
    stack.promote(&promotion);
    let run = stack.run_in("again", "Applied");
    settled(stack);
    let before = stack.runs("again");

    // Far past the five minutes in which SQS itself knows a message again.
    stack.emulator.pass(Duration::from_secs(3 * 3600));
    stack.promote(&promotion);
    let work = json!({"tenant": "acme", "environment": "again", "run": run["id"]}).to_string();
    for queue in ["Planner", "Applier"] {
        let url = format!("{}{STACK}-{queue}.fifo", stack.emulator.queue_url_prefix());
        let message = json!({"QueueUrl": url, "MessageBody": work, "MessageGroupId": "acme/again",
                             "MessageDeduplicationId": fresh()});
        stack.emulator.sqs("SendMessage", &message);
    }
    settled(stack);
    assert_eq!(stack.runs("again"), before);
    assert!(is(&before[0], "Applied"));
}

/// Waits until no queue of a worker or handler holds a message.
fn settled(stack: &Stack) {
    until("the queues to be empty", || {
        ["Planner.fifo", "Applier.fifo", "ProvisionPromotion", "RunnerFinished"].iter().all(|queue| {
            let url = format!("{}{STACK}-{queue}", stack.emulator.queue_url_prefix());
            let asked = json!({"QueueUrl": url, "AttributeNames": ["All"]});
            let told = stack.emulator.sqs("GetQueueAttributes", &asked);
            let zero = |name: &str| told["Attributes"][name] == json!("0");
            zero("ApproximateNumberOfMessages") && zero("ApproximateNumberOfMessagesNotVisible")
        })
    });
}

#[test]
fn a_bus_that_takes_a_part_is_sent_the_rest_again() {
    let (_, recorder) = &*DEPLOYED;
    let ids: Vec<String> = (0..4).map(|_| fresh()).collect();
    let letters: Vec<Value> = ids.iter().map(|id| event(id, &json!({}))).collect();
    let throttled = json!({"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"});
    let taken = json!({"EventId": "1"});
    let answer = json!({"FailedEntryCount": 2, "Entries": [taken, throttled, taken, throttled]});
    recorder.instead(&ids[0], 200, &answer);
    let answer = relay(&[record(1, &fresh(), None, &letters)]);
    assert_eq!(answer["batchItemFailures"], json!([]), "{answer}");
    let mine: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(sent(&mine), vec![ids.clone(), vec![ids[1].clone(), ids[3].clone()]]);
}

#[test]
fn what_the_bus_refuses_is_put_aside_with_its_reason_and_the_others_go() {
    let (_, recorder) = &*DEPLOYED;
    let ids: Vec<String> = (0..2).map(|_| fresh()).collect();
    let letters: Vec<Value> = ids.iter().map(|id| event(id, &json!({}))).collect();
    let refused = json!({"ErrorCode": "MalformedDetail", "ErrorMessage": "no"});
    recorder.instead(&ids[0], 200, &json!({"FailedEntryCount": 1, "Entries": [refused, {"EventId": "1"}]}));
    let answer = relay(&[record(1, &fresh(), None, &letters)]);
    assert_eq!(answer["batchItemFailures"], json!([]), "{answer}");
    let reason = poll("its dead letter", || reason(&ids[0]));
    assert!(reason.contains("MalformedDetail"), "{reason}");
    assert_eq!(sent(&[&ids[0], &ids[1]]).len(), 1, "neither is sent again");
}

#[test]
fn an_event_that_is_too_large_is_put_aside_and_the_others_go() {
    let (large, small) = (fresh(), fresh());
    let letters = [event(&large, &json!({"text": "x".repeat(1_200_000)})), event(&small, &json!({}))];
    let answer = relay(&[record(1, &fresh(), None, &letters)]);
    assert_eq!(answer["batchItemFailures"], json!([]), "{answer}");
    let reason = poll("its dead letter", || reason(&large));
    assert!(reason.contains("EventBridge takes 1000000"), "{reason}");
    assert_eq!(sent(&[&large, &small]), vec![vec![small]]);
}

#[test]
fn records_in_no_order_lose_nothing_and_tell_nothing_that_was_told() {
    let [first, second, idle] = [fresh(), fresh(), fresh()];
    let [one, two, three] = [fresh(), fresh(), fresh()];
    let newer = record(2, &two, Some(&one), &[event(&second, &json!({}))]);
    let older = record(1, &one, None, &[event(&first, &json!({}))]);
    // Somebody wrote to the item without a commit, as a repair by hand does: its letters left before.
    let touched = record(3, &three, Some(&three), &[event(&idle, &json!({}))]);
    let answer = relay(&[newer, older, touched]);
    assert_eq!(answer["batchItemFailures"], json!([]), "{answer}");
    assert_eq!(sent(&[&first, &second, &idle]), vec![vec![second, first]]);
}

#[test]
fn what_cannot_leave_now_comes_again_from_there() {
    let (_, recorder) = &*DEPLOYED;
    let (gone, stuck) = (fresh(), fresh());
    let batch = [
        record(7, &fresh(), None, &[event(&gone, &json!({}))]),
        record(8, &fresh(), None, &[event(&stuck, &json!({}))]),
    ];
    let internal = json!({"ErrorCode": "InternalFailure"});
    // One more than the relay tries by itself.
    recorder.instead(&gone, 200, &json!({"FailedEntryCount": 1, "Entries": [{"EventId": "1"}, internal]}));
    for _ in 0..4 {
        recorder.instead(&stuck, 200, &json!({"FailedEntryCount": 1, "Entries": [internal]}));
    }
    let answer = relay(&batch);
    assert_eq!(answer["batchItemFailures"], json!([{"itemIdentifier": "8"}]), "{answer}");
    let answer = relay(&batch[1..]);
    assert_eq!(answer["batchItemFailures"], json!([]), "{answer}");
}
