//! A controller and its jobs elsewhere, by the files between them: asked once, proven dead by what their place says and
//! nothing else, and never begun by two.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects and stops there")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use contract::{CountedIds, HandClock, Sample};
use domain::Digest;
use domain::provisioning_run::FailureReason;
use embedded::{DiskReceipts, FileSecrets};
use events::{CommitHash, EnvironmentId, Program, ProvisioningRunId};
use ports::runner::{Access, ApplyJob, ApplyOutcome, Job, Progress};
use ports::runner_place::{JobClaim, Order, RunnerPlace, SKEW};
use ports::{Clock, PortError, Put, Receipts, Runner, Secret, SecretBroker};
use runtime_cloud_pulumi::{Choice, Places, RemoteRunner};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// A place that only ends by its time, as a function does, and may refuse.
#[derive(Default)]
struct Timed {
    asked: AtomicUsize,
    /// How often each had been asked for before.
    before: Mutex<Vec<u32>>,
    refuses: Mutex<Option<&'static str>>,
    looked: AtomicUsize,
}

#[async_trait]
impl RunnerPlace for Timed {
    fn longest(&self) -> TimeDelta {
        TimeDelta::minutes(13)
    }
    async fn start(&self, order: &Order) -> Result<(), PortError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.before.lock().unwrap().push(order.asked);
        match *self.refuses.lock().unwrap() {
            Some(why) => Err(PortError::broken(why, "correct it")),
            None => Ok(()),
        }
    }
    async fn gone(&self, claim: &JobClaim, now: DateTime<Utc>) -> Result<Option<String>, PortError> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        Ok((now > claim.ends_by + SKEW).then(|| "its time is over".to_owned()))
    }
}

struct Stage {
    _folder: TempDir,
    clock: Arc<HandClock>,
    files: Arc<DiskReceipts>,
    function: Arc<Timed>,
    task: Arc<Timed>,
    runner: RemoteRunner,
}

impl Stage {
    fn new(choice: Choice) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(HandClock::new());
        let ids = Arc::new(CountedIds::default());
        let files = Arc::new(DiskReceipts { folder: folder.path().join("jobs"), ids });
        let (function, task) = (Arc::new(Timed::default()), Arc::new(Timed::default()));
        let places = Places { function: function.clone(), task: Some(task.clone()), choice };
        let runner = RemoteRunner {
            files: files.clone(),
            places,
            secrets: secrets(&folder),
            clock: clock.clone(),
            tools: BTreeMap::new(),
            scratch: folder.path().join("scratch"),
            version: "test".to_owned(),
        };
        Stage { _folder: folder, clock, files, function, task, runner }
    }

    fn pass(&self, minutes: u64) {
        self.clock.pass(Duration::from_secs(60 * minutes));
    }

    fn asked(&self) -> (usize, usize) {
        (self.function.asked.load(Ordering::SeqCst), self.task.asked.load(Ordering::SeqCst))
    }

    async fn apply(&self, may_start: bool) -> Progress<ApplyOutcome> {
        self.runner.apply(&apply(self.clock.now(), may_start)).await.unwrap()
    }

    fn key(file: &str) -> String {
        format!("jobs/acme/dev/{}/apply-1/{file}", run())
    }

    async fn file(&self, file: &str) -> Option<Value> {
        let bytes = self.files.get(&Stage::key(file)).await.unwrap();
        bytes.map(|b| serde_json::from_slice(&b).unwrap())
    }

    /// Somebody comes to work on it; whether they got it.
    async fn claim(&self, worker: &str, minutes: i64) -> bool {
        let ends_by = self.clock.now() + TimeDelta::minutes(minutes);
        let claim = JobClaim { worker: Some(worker.to_owned()), at: self.clock.now(), ends_by };
        let claim = serde_json::to_vec(&claim).unwrap();
        self.files.put_once(&Stage::key("out/claim.json"), &claim).await.unwrap() == Put::Created
    }
}

fn secrets(folder: &TempDir) -> Arc<dyn SecretBroker> {
    let ids = Arc::new(CountedIds::default());
    Arc::new(FileSecrets { folder: folder.path().join("secrets"), command: None, ids })
}

fn run() -> ProvisioningRunId {
    ProvisioningRunId(Uuid::from_u128(7))
}

fn job(now: DateTime<Utc>) -> Job {
    let commit = CommitHash::new("0123456789abcdef0123456789abcdef01234567").unwrap();
    Job {
        run: run(),
        attempt: 1,
        tenant: Sample::tenant("acme"),
        environment: EnvironmentId::new("dev").unwrap(),
        program: Program { repository: "/nowhere".to_owned(), path: ".".to_owned(), commit },
        config: BTreeMap::new(),
        secrets: BTreeMap::new(),
        secret_versions: vec![],
        inputs: Digest::of(b"inputs"),
        identity: None,
        access: Access::default(),
        passphrase: Secret::new("passphrase"),
        state: None,
        deadline: now + TimeDelta::minutes(13),
    }
}

fn apply(now: DateTime<Utc>, may_start: bool) -> ApplyJob {
    let changing = vec!["local:index:File".to_owned()];
    ApplyJob {
        job: job(now),
        plan_file: b"{}".to_vec(),
        stack_config: vec![],
        changing,
        since: HandClock::new().now(),
        lost_secrets: vec![],
        may_start,
    }
}

#[track_caller]
fn running(progress: &Progress<ApplyOutcome>) {
    assert!(matches!(progress, Progress::Running), "{progress:?}");
}

#[track_caller]
fn failed(progress: Progress<ApplyOutcome>) -> (FailureReason, String) {
    match progress {
        Progress::Finished(ApplyOutcome { failure: Some(failure), .. }) => (failure.reason, failure.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn somebody_is_asked_once_and_again_where_nobody_has_claimed_it() {
    let stage = Stage::new(Choice::Function);
    running(&stage.apply(true).await);
    running(&stage.apply(false).await);
    assert_eq!(stage.asked(), (1, 0));
    // Whoever asked may have died before it was heard.
    stage.pass(3);
    running(&stage.apply(false).await);
    running(&stage.apply(false).await);
    stage.pass(3);
    running(&stage.apply(false).await);
    // Twice in one while is the same; later it is somebody else.
    assert_eq!(*stage.function.before.lock().unwrap(), [0, 1, 1, 3]);
    stage.function.asked.store(2, Ordering::SeqCst);
    assert!(stage.claim("function 1", 14).await);
    stage.pass(3);
    running(&stage.apply(false).await);
    assert_eq!(stage.asked(), (2, 0));
}

#[tokio::test]
async fn a_runner_that_died_is_dead_when_its_time_is_over_and_never_before() {
    let stage = Stage::new(Choice::Function);
    running(&stage.apply(true).await);
    assert!(stage.claim("function 1", 14).await);
    let state = json!({"version": 3, "deployment": {"resources": []}}).to_string();
    stage.files.put_once(&Stage::key("out/states/000000.json"), state.as_bytes()).await.unwrap();
    stage.pass(14);
    running(&stage.apply(false).await);
    stage.clock.pass(Duration::from_secs(30));
    running(&stage.apply(false).await);
    stage.clock.pass(Duration::from_secs(1));
    let Progress::Finished(outcome) = stage.apply(false).await else { panic!("it is dead") };
    assert_eq!(outcome.failure.map(|f| f.reason), Some(FailureReason::Interrupted));
    // What it did is what the newest of its states says.
    assert_eq!(outcome.state, Some(state.into_bytes()));
    assert_eq!(stage.asked(), (1, 0));
}

/// The result of a session that ended well, with these files.
fn ended(files: &BTreeMap<&str, Digest>) -> String {
    let exit = json!({"steps": [], "ended_by": "completed", "started_unix_ms": 1, "ended_unix_ms": 2,
                      "killed": false, "survivors": []});
    json!({"notStarted": null, "exit": exit, "died": null, "files": files}).to_string()
}

/// Results that nobody can use: no JSON, a file that isn't there, nothing that says what it was.
fn unusable() -> [String; 3] {
    let gone = BTreeMap::from([("work/about.json", Digest::of(b"gone"))]);
    ["{".to_owned(), ended(&gone), ended(&BTreeMap::new())]
}

#[tokio::test]
async fn a_result_that_nobody_can_use_proves_no_end() {
    for result in unusable() {
        let stage = Stage::new(Choice::Function);
        running(&stage.apply(true).await);
        assert!(stage.claim("function 1", 14).await);
        let state = json!({"version": 3, "deployment": {"resources": []}}).to_string();
        stage.files.put_once(&Stage::key("out/states/000000.json"), state.as_bytes()).await.unwrap();
        stage.files.put_once(&Stage::key("out/result.json"), result.as_bytes()).await.unwrap();
        running(&stage.apply(false).await);
        stage.pass(15);
        let Progress::Finished(outcome) = stage.apply(false).await else { panic!("{result}") };
        let failure = outcome.failure.unwrap();
        assert_eq!(failure.reason, FailureReason::Interrupted, "{result}");
        assert!(failure.message.contains("its time is over; "), "{}", failure.message);
        assert_eq!(outcome.state, Some(state.into_bytes()), "{result}");
        assert_eq!(stage.asked(), (1, 0), "{result}");
    }
}

#[tokio::test]
async fn a_plan_whose_result_nobody_can_use_is_made_again() {
    for result in unusable() {
        let stage = Stage::new(Choice::Function);
        let plan = async || stage.runner.plan(&job(stage.clock.now())).await.unwrap();
        assert!(matches!(plan().await, Progress::Running));
        assert!(stage.claim("function 1", 14).await);
        let claim = stage.files.get(&Stage::key("out/claim.json")).await.unwrap().unwrap();
        for (file, bytes) in [("out/result.json", result.as_bytes()), ("out/claim.json", &claim)] {
            let key = Stage::key(file).replace("apply-1", "plan-1");
            stage.files.put_once(&key, bytes).await.unwrap();
        }
        stage.pass(15);
        assert!(matches!(plan().await, Progress::Running), "{result}");
        assert_eq!(stage.asked(), (2, 0), "{result}");
    }
}

#[tokio::test]
async fn what_nobody_came_for_was_never_started_and_can_t_be_any_more() {
    let stage = Stage::new(Choice::Function);
    running(&stage.apply(true).await);
    stage.pass(11);
    let dead = stage.apply(false).await;
    assert!(matches!(dead, Progress::Dead { .. }), "{dead:?}");
    // Whoever comes now finds it taken.
    assert!(!stage.claim("late function", 14).await);
    assert_eq!(stage.file("out/claim.json").await.unwrap()["worker"], Value::Null);
}

#[tokio::test]
async fn a_controller_that_died_after_its_intent_has_started_nothing_and_never_will() {
    let stage = Stage::new(Choice::Function);
    let dead = stage.apply(false).await;
    assert!(matches!(dead, Progress::Dead { .. }), "{dead:?}");
    // The first one wakes up, and goes on where it was.
    let late = stage.apply(true).await;
    assert!(matches!(late, Progress::Dead { .. }), "{late:?}");
    assert_eq!(stage.asked(), (0, 0));
}

#[tokio::test]
async fn a_controller_that_died_before_it_asked_is_followed_by_one_that_asks() {
    let stage = Stage::new(Choice::Function);
    // Everything but the call is done.
    running(&stage.apply(true).await);
    stage.function.asked.store(0, Ordering::SeqCst);
    stage.pass(2);
    running(&stage.apply(false).await);
    assert_eq!(stage.asked(), (1, 0));
    assert!(stage.claim("function 1", 14).await);
}

#[tokio::test]
async fn what_can_t_be_asked_for_ends_with_the_reason_and_is_taken_from_all_others() {
    let stage = Stage::new(Choice::Function);
    *stage.function.refuses.lock().unwrap() = Some("role roles/x may not be assumed");
    let (reason, message) = failed(stage.apply(true).await);
    assert_eq!(reason, FailureReason::ApplyFailed);
    assert!(message.contains("roles/x"), "{message}");
    assert!(!stage.claim("late function", 14).await);
    // A second look says the same: it was never begun.
    let again = stage.apply(false).await;
    assert!(matches!(again, Progress::Dead { .. }), "{again:?}");
}

#[tokio::test]
async fn the_place_of_an_apply_stands_in_its_order_and_stays() {
    let stage = Stage::new(Choice::Task);
    running(&stage.apply(true).await);
    assert_eq!(stage.asked(), (0, 1));
    assert_eq!(stage.file("in/ordered.json").await.unwrap()["place"], "task");
    assert!(stage.claim("task 1", 14).await);
    // The settings change, and this apply is still the task's.
    let runner = RemoteRunner {
        places: Places {
            function: stage.function.clone(),
            task: Some(stage.task.clone()),
            choice: Choice::Function,
        },
        files: stage.files.clone(),
        secrets: stage.runner.secrets.clone(),
        clock: stage.clock.clone(),
        tools: BTreeMap::new(),
        scratch: stage.runner.scratch.clone(),
        version: "test".to_owned(),
    };
    stage.pass(3);
    running(&runner.apply(&apply(stage.clock.now(), true)).await.unwrap());
    assert_eq!(stage.asked(), (0, 1));
    assert_eq!(stage.task.looked.load(Ordering::SeqCst), 1);
    assert_eq!(stage.function.looked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_its_runner_masks_is_in_no_outcome_and_the_state_is_kept_as_it_is() {
    let stage = Stage::new(Choice::Function);
    running(&stage.apply(true).await);
    assert!(stage.claim("function 1", 14).await);
    let state = |key: &str| {
        let stack = json!({"type": "pulumi:pulumi:Stack", "urn": "s", "outputs": {"key": key, "n": 1}});
        json!({"version": 3, "checkpoint": {"latest": {"resources": [stack]}}}).to_string()
    };
    let about = json!({"run": run(), "tenant": "acme", "environment": "dev", "project": "p", "stack": "s"});
    let mut files = BTreeMap::new();
    for (path, text) in [
        ("work/about.json", about.to_string()),
        ("work/backend/.pulumi/stacks/p/s.json", state("key-of-a-role")),
        ("work/shown.json", state("[secret]")),
    ] {
        let file = format!("out/files/{}", domain::aggregate::encode(path));
        stage.files.put_once(&Stage::key(&file), text.as_bytes()).await.unwrap();
        files.insert(path, Digest::of(text.as_bytes()));
    }
    stage.files.put_once(&Stage::key("out/result.json"), ended(&files).as_bytes()).await.unwrap();
    let Progress::Finished(outcome) = stage.apply(false).await else { panic!("it has ended") };
    assert_eq!(outcome.outputs, json!({"key": "[secret]", "n": 1}));
    assert_eq!(outcome.state, Some(state("key-of-a-role").into_bytes()));
    // Nobody has a secret of it any more: nobody can tell where it stands.
    let job = ApplyJob { lost_secrets: vec!["db/password".to_owned()], ..apply(stage.clock.now(), false) };
    let Progress::Finished(outcome) = stage.runner.apply(&job).await.unwrap() else { panic!("it has ended") };
    assert!(outcome.outputs["withheld"].as_str().unwrap().contains("db/password"), "{}", outcome.outputs);
    assert!(!String::from_utf8_lossy(&outcome.log).contains("n\": 1"));
    assert_eq!(outcome.state, Some(state("key-of-a-role").into_bytes()));
}

#[tokio::test]
async fn a_plan_that_was_made_of_other_inputs_is_made_again_and_never_recorded() {
    let stage = Stage::new(Choice::Function);
    let plan = |inputs: &[u8]| {
        let job = Job { inputs: Digest::of(inputs), ..job(stage.clock.now()) };
        async move { job }
    };
    let first = plan(b"version 1").await;
    assert!(matches!(stage.runner.plan(&first).await.unwrap(), Progress::Running));
    let left = json!({"notStarted": {"reason": "plan-failed", "message": "of version 1"}, "exit": null,
                      "died": null, "files": {}});
    let key = Stage::key("out/result.json").replace("apply-1", "plan-1");
    stage.files.put_once(&key, left.to_string().as_bytes()).await.unwrap();
    // A secret was rotated meanwhile.
    let second = plan(b"version 2").await;
    assert!(matches!(stage.runner.plan(&second).await.unwrap(), Progress::Running));
    assert_eq!(stage.asked(), (2, 0));
    let sheet = Stage::key("in/sheet.json").replace("apply-1", "plan-2");
    let sheet: Value = serde_json::from_slice(&stage.files.get(&sheet).await.unwrap().unwrap()).unwrap();
    assert_eq!(sheet["inputs"], json!(Digest::of(b"version 2")));
    // Of the same inputs it counts.
    let Progress::Finished(outcome) = stage.runner.plan(&first).await.unwrap() else {
        panic!("it has ended")
    };
    assert_eq!(outcome.result.unwrap_err().message, "of version 1");
}

#[tokio::test]
async fn what_is_long_gone_was_not_never_started() {
    let stage = Stage::new(Choice::Function);
    stage.pass(25 * 60);
    let gone = stage.apply(false).await;
    assert!(matches!(&gone, Progress::Unknown { why } if why.contains("recover break")), "{gone:?}");
    assert_eq!(stage.file("in/ordered.json").await, None);
}
