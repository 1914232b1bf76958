//! Applies in tasks: the image's own root file system, sealed keys, and the proof of a task's death.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test ends by panicking"
)]

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::LazyLock;

use emulator::{Emulator, RunningTask, Tasks};
use runtime_cloud_e2e::stack::{STACK, Stack, TWO_FILES, id, xtask};
use runtime_cloud_e2e::{Repository, poll, until};
use serde_json::{Value, json};

struct Deployed {
    stack: Stack,
    root: PathBuf,
}

static DEPLOYED: LazyLock<Deployed> = LazyLock::new(|| {
    let image = xtask().args(["package", "--development"]).stdin(Stdio::null()).output().expect("it runs");
    assert!(image.status.success(), "{}", String::from_utf8_lossy(&image.stderr));
    let root = PathBuf::from(String::from_utf8(image.stdout).unwrap().trim());
    let parameters = ["RunnerImage=runner:test", "TaskSubnets=subnet-1,subnet-2", "Place=task"];
    Deployed { stack: Stack::deploy_with(Emulator::start(), &parameters), root }
});

impl Deployed {
    /// A promotion to an environment of its own, up to the task that ECS is asked for: its run, and the task.
    fn promoted(&self, environment: &str, repository: &Repository) -> (String, Tasks<'_>, String) {
        let commit = repository.program(TWO_FILES);
        self.stack.environment(environment, "development");
        self.stack.promote(&Stack::promotion(environment, repository, &commit, false));
        let run = id(&self.stack.run_in(environment, "Applying"));
        let tasks = Tasks::of(&self.stack.emulator, STACK, &self.root, &repository.path());
        let task = poll("the task", || {
            let mut wanted = tasks.wanted().into_iter();
            wanted.find(|arn| tasks.described(arn)["overrides"].to_string().contains(&run))
        });
        (run, tasks, task)
    }

    fn job(&self, environment: &str, run: &str, file: &str) -> Option<Value> {
        let bucket = format!("{STACK}-jobs-000000000000-us-east-1");
        let key = format!("jobs/acme/{environment}/{run}/apply-1/{file}");
        self.stack.emulator.object(&bucket, &key).and_then(|b| serde_json::from_slice(&b).ok())
    }
}

#[test]
fn an_apply_runs_in_a_task_with_keys_that_nobody_else_opens() {
    let deployed = &*DEPLOYED;
    let repository = Repository::new();
    let (run, tasks, arn) = deployed.promoted("tasks", &repository);
    let ordered = deployed.job("tasks", &run, "in/ordered.json").expect("the order");
    assert_eq!(ordered["place"], "task");

    // Whoever may describe tasks sees no key.
    let described = tasks.described(&arn).to_string();
    for field in ["secretAccessKey", "sessionToken", "accessKeyId", "ASIA"] {
        assert!(!described.contains(field), "{field}");
    }

    let mut task = tasks.start(&arn);
    assert!(task.wait(), "{}", task.said());
    assert!(deployed.job("tasks", &run, "out/result.json").is_some(), "{}", task.said());
    // The same once more: it leaves at once.
    let mut again = tasks.start(&arn);
    assert!(again.wait(), "{}", again.said());
    assert!(again.said().contains("somebody else has it"), "{}", again.said());
    tasks.stopped(&task, &format!("{STACK}-RunnerFinished"));

    let applied = deployed.stack.run_in("tasks", "Applied");
    assert_eq!(id(&applied), run);
    until("the subscriber to have heard of the apply", || {
        deployed.stack.told(&run).iter().any(|(name, _)| name == "provisioning-applied")
    });

    // Another job's name opens nothing.
    let other = swapped(&task, &run);
    let refused = deployed.stack.emulator.ecs(
        "RunTask",
        &json!({"cluster": STACK, "taskDefinition": format!("{STACK}-runner"), "launchType": "FARGATE", "overrides": other}),
    );
    let arn = refused["tasks"][0]["taskArn"].as_str().expect("a task").to_owned();
    let mut thief = tasks.start(&arn);
    assert!(!thief.wait(), "{}", thief.said());
    tasks.stopped(&thief, &format!("{STACK}-RunnerFinished"));
}

/// What a task was started with, in the name of another run.
fn swapped(task: &RunningTask, run: &str) -> Value {
    let other =
        run.replacen(|c: char| c.is_ascii_hexdigit(), if run.starts_with('0') { "1" } else { "0" }, 1);
    serde_json::from_str(&task.overrides.to_string().replace(run, &other)).unwrap()
}

#[test]
fn a_task_that_died_is_silent_until_ecs_says_that_it_has_stopped() {
    let deployed = &*DEPLOYED;
    let repository = Repository::new();
    let (run, tasks, arn) = deployed.promoted("dies", &repository);
    let mut task = tasks.start(&arn);
    until("the task to claim its job", || deployed.job("dies", &run, "out/claim.json").is_some());
    task.kill();
    assert!(deployed.job("dies", &run, "out/result.json").is_none(), "{}", task.said());
    assert_eq!(deployed.job("dies", &run, "out/claim.json").unwrap()["worker"], json!(arn));

    // The applier is woken, and looks: nothing proves anything yet.
    let wake = |attempt: &str| {
        let body = json!({"tenant": "acme", "environment": "dies", "run": run});
        let url = format!("{}{STACK}-Applier.fifo", deployed.stack.emulator.queue_url_prefix());
        let message = json!({"QueueUrl": url, "MessageBody": body.to_string(), "MessageGroupId": "acme/dies",
                             "MessageDeduplicationId": attempt});
        deployed.stack.emulator.sqs("SendMessage", &message);
    };
    let handled = || {
        let asked = json!({"QueueUrl": format!("{}{STACK}-Applier.fifo", deployed.stack.emulator.queue_url_prefix()),
                           "AttributeNames": ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]});
        let told = deployed.stack.emulator.sqs("GetQueueAttributes", &asked);
        told["Attributes"]["ApproximateNumberOfMessages"] == "0"
            && told["Attributes"]["ApproximateNumberOfMessagesNotVisible"] == "0"
    };
    wake("1");
    until("the applier to have looked", handled);
    let runs = deployed.stack.runs("dies");
    assert!(
        runs[0]["state"].get("Applying").is_some() || runs[0].to_string().contains("Applying"),
        "{runs:#?}"
    );

    tasks.stopped(&task, &format!("{STACK}-RunnerFinished"));
    let failed = deployed.stack.run_in("dies", "Failed");
    let said = failed.to_string();
    assert!(said.contains("interrupted") || said.contains("Interrupted"), "{said}");
    assert!(said.contains("STOPPED"), "{said}");
}
