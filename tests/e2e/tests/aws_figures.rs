//! What a promotion costs on AWS, counted and not timed: every request of every function is written down on its way to
//! the emulator. The same record shows that no function does what its role doesn't allow, and that no message waits
//! for a connection.
//!
//! docs/performance.md has its table, and the command that prints it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test ends by panicking, and makes its own ids"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use emulator::{Emulator, Recorded, Recorder, write_units};
use runtime_cloud_e2e::stack::{STACK, Stack, TWO_FILES, id, is};
use runtime_cloud_e2e::{Repository, relayed, rights, until};
use serde_json::{Value, json};
use uuid::Uuid;

/// Requests of one promotion at most; some more than were counted, for a message that comes twice.
const MOST: &[(&str, usize)] =
    &[("inbound-events", 12), ("outbox-relay", 9), ("planner", 44), ("applier", 64), ("runner", 36)];

/// Everything that was measured, once for all cases.
struct Measured {
    stack: Stack,
    /// Requests of everything, in their order.
    all: Vec<Recorded>,
    /// Those of one promotion: plan and apply, in an environment where a run was before.
    promotion: Vec<Recorded>,
    /// Those that relayed a backlog.
    backlog: Vec<Recorded>,
    /// How many events that was.
    events: usize,
}

static MEASURED: LazyLock<Measured> = LazyLock::new(measure);

fn measure() -> Measured {
    let (emulator, recorder) = Emulator::recorded();
    let stack = Stack::deploy(emulator);
    stack.environment("dev", "development");
    let repository = Repository::new();
    let commit = repository.program(TWO_FILES);
    // The first one starts the functions and makes the environment's state.
    promote(&stack, &repository, &commit);
    let before = recorder.recorded();
    recorder.forget();

    let next = TWO_FILES.replace("content: b", "content: c");
    promote(&stack, &repository, &repository.program(&next));
    let promotion = recorder.recorded();
    recorder.forget();

    let (backlog, events) = relay(&stack, &recorder);
    let all = [&before[..], &promotion, &backlog].concat();
    Measured { stack, all, promotion, backlog, events }
}

/// One promotion, until the subscriber has heard of its end.
fn promote(stack: &Stack, repository: &Repository, commit: &str) {
    let promotion = Stack::promotion("dev", repository, commit, false);
    stack.promote(&promotion);
    let mut run = Value::Null;
    until("the promotion to be applied", || {
        let runs = stack.runs("dev");
        let found =
            runs.into_iter().find(|r| r.to_string().contains(promotion["promotionId"].as_str().unwrap()));
        run = found.unwrap_or_default();
        is(&run, "Applied")
    });
    until("the subscriber to hear of it", || {
        stack.told(&id(&run)).iter().any(|(name, _)| name == "provisioning-applied")
    });
}

/// Twice as many records as the relay gets at once, each with one event, as the streams bring them.
fn relay(stack: &Stack, recorder: &Recorder) -> (Vec<Recorded>, usize) {
    let name = format!("{STACK}-outbox-relay");
    let mappings = stack.emulator.aws(&["lambda", "list-event-source-mappings", "--function-name", &name]);
    let batch = usize::try_from(mappings["EventSourceMappings"][0]["BatchSize"].as_u64().unwrap()).unwrap();
    for round in 0..2 {
        let records: Vec<Value> = (0..batch).map(|n| record(round * batch + n)).collect();
        let answer = stack.emulator.invoke(&name, &json!({"Records": records}));
        assert_eq!(answer["batchItemFailures"], json!([]), "{answer}");
    }
    let sent = recorder.recorded().into_iter().filter(|r| r.function == name).collect();
    (sent, 2 * batch)
}

/// A record of an item whose commit carried an event.
fn record(n: usize) -> Value {
    let id = || Uuid::new_v4().to_string();
    relayed::record(n, &id(), Some(&id()), &[relayed::event(&id(), &json!({"n": n}))])
}

/// Without what is done once for each start of a function, and each minute.
fn of_the_promotion(measured: &Measured) -> Vec<&Recorded> {
    let counted =
        |r: &&Recorded| !r.is_init() && r.function.starts_with(STACK) && !r.function.ends_with("run-watch");
    measured.promotion.iter().filter(counted).collect()
}

fn counts(requests: &[&Recorded]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let function = request.function.trim_start_matches("rc-").to_owned();
        *counts.entry((function, format!("{} {}", request.service, request.operation))).or_default() += 1;
    }
    counts
}

fn units(requests: &[&Recorded], function: &str) -> u64 {
    requests.iter().filter(|r| r.function.ends_with(function)).map(|r| r.write_units).sum()
}

#[test]
fn figures_of_a_promotion() {
    let requests = of_the_promotion(&MEASURED);
    let counts = counts(&requests);
    println!("| function | service and operation | requests |\n|---|---|---|");
    for ((function, operation), count) in &counts {
        println!("| {function} | {operation} | {count} |");
    }
    println!("| all | | {} |", requests.len());
    println!("\n| function | write units |\n|---|---|");
    for function in ["inbound-events", "planner", "applier", "outbox-relay"] {
        println!("| {function} | {} |", units(&requests, function));
    }
    let writes: u64 = requests.iter().map(|r| r.write_units).sum();
    let plain: u64 = requests.iter().map(|r| write_units::without_letters(&r.operation, &r.body)).sum();
    println!("| all | {writes} |\n\nof these for the letters' bytes: {}", writes - plain);
    // One commit for the inbound event, one for the plan, the claim and the end of the apply; a lost race is one more.
    let commits = requests.iter().filter(|r| r.operation == "TransactWriteItems").count();
    assert!((4..=5).contains(&commits), "{commits} commits");
    // What each costs grows with the rows: a second field of a kilobyte is seen here.
    assert!(writes <= 80, "{writes} write units");
    for (function, most) in MOST {
        let count = requests.iter().filter(|r| r.function.ends_with(function)).count();
        assert!(count > 0 && count <= *most, "{function} asks {count} times, more than {most}");
    }
}

#[test]
fn the_outbox_costs_no_write() {
    let measured = &*MEASURED;
    let rows = ["DeploymentSpecifications", "ProvisioningRuns", "Environments", "EnvironmentSlots"];
    for request in &measured.all {
        assert!(
            !(request.function.ends_with("outbox-relay") && request.service == "dynamodb"),
            "{request:?}"
        );
        // Letters ride on rows: nothing is written for them alone.
        for right in
            request.needs().iter().filter(|r| request.write_units > 0 && r.action.ends_with("PutItem"))
        {
            assert!(rows.iter().any(|row| right.resource.ends_with(row)), "{right}");
        }
    }
}

#[test]
fn a_backlog_is_relayed_in_full_batches() {
    let measured = &*MEASURED;
    let calls = measured.backlog.iter().filter(|r| r.operation == "PutEvents").count();
    let sent: usize = measured
        .backlog
        .iter()
        .filter(|r| r.operation == "PutEvents")
        .map(|r| r.body["Entries"].as_array().unwrap().len())
        .sum();
    assert!(measured.events >= 100 && sent >= measured.events, "{sent} of {}", measured.events);
    println!("{} events in {calls} calls", measured.events);
    assert!(calls * 100 <= measured.events * 12, "{calls} calls for {} events", measured.events);
}

#[test]
fn no_message_waits_for_a_connection() {
    let mut met: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for request in MEASURED.all.iter().filter(|r| r.is_init()) {
        met.entry(&request.function).or_default().insert(request.host());
    }
    // The runner's calls are a job's: with its credentials, which come with the job.
    let later = MEASURED.all.iter().filter(|r| !r.is_init() && !r.function.ends_with("runner"));
    for request in later.filter(|r| r.function.starts_with(STACK)) {
        let met = met.get(request.function.as_str()).is_some_and(|hosts| hosts.contains(&request.host()));
        assert!(
            met,
            "{} meets {} with a message: let it do so when it begins",
            request.function,
            request.host()
        );
    }
}

#[test]
fn each_call_is_one_that_its_role_allows() {
    let measured = &*MEASURED;
    let held = rights::hold(&measured.stack.emulator, &measured.all);
    println!("{} rights, {} of jobs", held.checked, held.of_jobs);
    assert!(held.refused.is_empty(), "mend the policies in template.yaml: {:#?}", held.refused);
    assert!(held.checked > 50 && held.of_jobs > 5, "{held:?}");
}
