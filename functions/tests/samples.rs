//! The messages of `functions/samples` are such as the doors read.
#![expect(clippy::unwrap_used, reason = "a test ends by panicking")]

use application::workers::{ApplyRun, PlanRun};
use aws::{StreamRecord, event_of, letters_of};
use aws_lambda_events::dynamodb::Event as StreamEvent;
use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use events::PromotionApproved;
use ports::commit::LetterBody;
use runtime_cloud_functions::queue::record;
use runtime_cloud_functions::runner_finished;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn sample<T: DeserializeOwned>(name: &str) -> T {
    let path = format!("{}/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The queue of a message, and its body as the consumer gets it.
fn read(message: &SqsMessage) -> (String, Vec<u8>) {
    let arn = message.event_source_arn.clone().unwrap();
    let queue = arn.rsplit("rc-").next().unwrap().trim_end_matches(".fifo").to_owned();
    let body = record(message.clone()).delivery(&queue, 0).message.body;
    (queue, body)
}

#[test]
fn workers_get_their_run() {
    let one = |name: &str| sample::<SqsEvent>(name).records.remove(0);
    let (queue, body) = read(&one("planner.sqs.json"));
    let plan: PlanRun = serde_json::from_slice(&body).unwrap();
    assert_eq!((queue.as_str(), plan.environment.as_str()), ("Planner", "shop-staging"));
    let (queue, body) = read(&one("applier.sqs.json"));
    let apply: ApplyRun = serde_json::from_slice(&body).unwrap();
    assert_eq!((queue.as_str(), apply.run), ("Applier", plan.run));
    let delivery = record(one("planner.sqs.json")).delivery("Planner", 0);
    assert_eq!(delivery.message.group, "acme/shop-staging");
}

#[test]
fn inbound_events_are_a_promotion_and_a_result() {
    let records = sample::<SqsEvent>("inbound-events.sqs.json").records;
    let read: Vec<_> = records.iter().map(read).collect();
    let [(first, promotion), (second, result)] = read.try_into().unwrap();
    assert_eq!((first.as_str(), second.as_str()), ("ProvisionPromotion", "RunnerFinished"));
    let promotion: PromotionApproved = event_of(&promotion).unwrap().read().unwrap();
    assert_eq!(promotion.environment_id.as_str(), "shop-staging");
    assert_eq!(runner_finished::message(&result).unwrap().queue, "Planner");
}

#[test]
fn a_record_of_the_stream_carries_an_event_and_a_message() {
    let event: StreamEvent = sample("outbox-relay.stream.json");
    let change = serde_json::to_value(&event.records.first().unwrap().change).unwrap();
    let text = |image: &str, name: &str| {
        change.get(image)?.get(name)?.get("S").and_then(Value::as_str).map(str::to_owned)
    };
    let letters = letters_of(&StreamRecord {
        commit: text("NewImage", "commit"),
        commit_before: text("OldImage", "commit"),
        letters: text("NewImage", "letters"),
    });
    let letters = letters.unwrap();
    assert!(matches!(letters[0].body, LetterBody::Event(_)));
    assert!(matches!(&letters[1].body, LetterBody::Message { queue, .. } if queue == "Planner"));
}

#[test]
fn a_tick_is_an_object() {
    assert!(sample::<Value>("run-watch.schedule.json").is_object());
}
