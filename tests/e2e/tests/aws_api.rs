//! The API of a deployed stack, as people use it: the real command line with tokens of an issuer, the real function
//! behind its URL, template.yaml on an emulator.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends by panicking")]

use std::sync::LazyLock;

use emulator::{Emulator, Issuer, Recorder, SigningKey};
use runtime_cloud_e2e::stack::{STACK, Stack as Deployed};
use runtime_cloud_e2e::{Answer, HostProcess, Repository, poll, rights, until};
use serde_json::{Value, json};

/// A stack with an API; each case has environments of its own.
struct Stack {
    deployed: Deployed,
    issuer: Issuer,
    recorder: Recorder,
    /// Never started: whoever asks has no host.
    cli: HostProcess,
    tokens: tempfile::TempDir,
}

static DEPLOYED: LazyLock<Stack> = LazyLock::new(|| {
    let issuer = Issuer::start();
    let (emulator, recorder) = Emulator::recorded();
    let deployed = Deployed::deploy_with(emulator, &[&format!("JwtIssuer={}", issuer.url())]);
    Stack { deployed, issuer, recorder, cli: HostProcess::new(), tokens: tempfile::tempdir().unwrap() }
});

const ONE_FILE: &str = "resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: one}}
";

/// A person with a token.
struct Person<'a> {
    stack: &'a Stack,
    file: String,
    token: String,
}

impl Stack {
    /// Where the function answers: an emulator has no name for each URL.
    fn url(&self) -> String {
        let told = self.deployed.output("ApiUrl");
        let id = told.trim_start_matches("https://").split('.').next().unwrap();
        format!("{}/_aws/lambda-url/{id}", self.deployed.emulator.url())
    }

    fn bearer(&self, token: String) -> Person<'_> {
        let file = self
            .tokens
            .path()
            .join(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, token.as_bytes()).to_string());
        std::fs::write(&file, format!("{token}\n")).unwrap();
        Person { stack: self, file: file.to_str().unwrap().to_owned(), token }
    }

    fn person(&self, name: &str, tenant: &str, roles: &[&str]) -> Person<'_> {
        self.bearer(self.issuer.token(name, tenant, roles))
    }

    /// Holds all that the API has asked for against its role; what it was allowed.
    fn hold(&self) -> Vec<String> {
        let function = format!("{STACK}-api");
        let all: Vec<_> = self.recorder.recorded().into_iter().filter(|r| r.function == function).collect();
        let held = rights::hold(&self.deployed.emulator, &all);
        assert!(held.refused.is_empty(), "mend the policy in template.yaml: {:#?}", held.refused);
        held.allowed.into_iter().map(|(_, right)| right).collect()
    }

    /// What the emulator and its functions said.
    fn log(&self) -> String {
        self.deployed.emulator.log()
    }
}

impl Person<'_> {
    fn cli(&self, args: &[&str]) -> Answer {
        let url = self.stack.url();
        let server = ["--server", &url, "--token-file", &self.file];
        self.stack.cli.cli(&[&server, args].concat())
    }

    fn ok(&self, args: &[&str]) -> Answer {
        let answer = self.cli(args);
        assert_eq!(answer.code, 0, "{args:?}: {answer:?}\n{}", self.stack.log());
        answer
    }

    /// A command that is refused, for a reason that is said.
    fn refused(&self, code: i32, says: &str, args: &[&str]) {
        let answer = self.cli(args);
        assert!(answer.code == code && answer.err.contains(says), "{args:?}: {says}: {answer:?}");
        assert!(!answer.err.contains(&self.token), "{answer:?}");
    }

    fn run(&self, run: &str) -> Value {
        self.ok(&["--json", "runs", "show", run]).json()
    }

    fn state(&self, run: &str, state: &str) -> Value {
        poll(&format!("run {run} to be {state}; it is {}", self.run(run)), || {
            let view = self.run(run);
            assert!(view["state"] != "Failed" || state == "Failed", "{view}");
            (view["state"] == state).then_some(view)
        })
    }

    /// A request as any client makes it: the status and the body.
    fn ask(&self, path: &str, kind: &str, body: &str) -> (u16, String) {
        let asked = ureq::post(format!("{}{path}", self.stack.url()))
            .config()
            .http_status_as_error(false)
            .build()
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", kind);
        let mut answer = asked.send(body.as_bytes()).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    }
}

fn commit(repository: &Repository, text: &str) {
    repository.program(&ONE_FILE.replace("one", text));
}

#[test]
fn what_one_person_plans_in_production_another_one_approves() {
    let stack = &*DEPLOYED;
    let ada = stack.person("ada", "acme", &["operator", "approver"]);
    let zoe = stack.person("zoe", "acme", &["approver"]);
    let vic = stack.person("vic", "acme", &["viewer"]);
    ada.ok(&["environments", "create", "live", "--class", "production"]);
    assert!(vic.ok(&["environments", "list"]).out.contains("production"));

    // A promotion carries its approval.
    let repository = Repository::new();
    let path = repository.path();
    let program =
        ["--environment", "live", "--path", "app", "--repository", path.to_str().unwrap(), "--ref", "main"];
    commit(&repository, "one");
    ada.ok(&[&["promote", "--watch"], &program[..]].concat());

    // A plan waits for another person.
    commit(&repository, "two");
    let planned = ada.cli(&[&["--json", "plan", "--watch"], &program[..]].concat());
    assert_eq!(planned.code, 6, "{planned:?}");
    let run = planned.json()["provisioningRunId"].as_str().unwrap().to_owned();
    assert_eq!(ada.state(&run, "AwaitingApproval")["requestedBy"], "ada");
    ada.refused(4, "", &["approve", &run]);
    vic.refused(4, "role approver", &["approve", &run]);
    zoe.ok(&["approve", &run]);
    let applied = zoe.state(&run, "Applied");
    assert_eq!(applied["approval"]["decidedBy"], "zoe");

    assert_eq!(
        vic.ok(&["--json", "runs", "list", "--environment", "live"]).json().as_array().map(Vec::len),
        Some(2)
    );
    let newest = vic.ok(&["--json", "runs", "list", "--limit", "1"]).json();
    assert_eq!(newest[0]["provisioningRunId"], run);
    let older = vic.ok(&["--json", "runs", "list", "--after", &run[..8]]).json();
    assert_eq!(older.as_array().map(Vec::len), Some(1), "{older}");
    assert!(vic.ok(&["runs", "show", &run[..8]]).out.contains("zoe"));
    vic.ok(&["runs", "logs", &run]);
    vic.ok(&["receipts", "show", &run, "apply"]);
    vic.ok(&["receipts", "verify", "live"]);
    let log = stack.log();
    for token in [&ada.token, &zoe.token, &vic.token] {
        let signature = token.rsplit('.').next().unwrap();
        assert!(!log.contains(signature), "a token is in the log");
    }
    let allowed = stack.hold();
    for index in ["newest", "owner", "tenant"] {
        let asked = |right: &&String| {
            right.starts_with("dynamodb:Query") && right.ends_with(&format!("ProvisioningRuns/index/{index}"))
        };
        assert!(allowed.iter().any(|right| asked(&right)), "{index}: {allowed:#?}");
    }
}

#[test]
fn who_may_only_look_changes_nothing() {
    let stack = &*DEPLOYED;
    let vic = stack.person("vic", "looking", &["viewer"]);
    let id = "00000000-0000-4000-8000-000000000001";
    let run = format!("/v1/provisioning-runs/{id}");
    for (path, role) in [
        ("/v1/environments/live/provisioning-runs", "operator"),
        ("/v1/environments/live/clear", "operator"),
        (&format!("{run}/cancel"), "operator"),
        (&format!("{run}/break"), "operator"),
        ("/v1/resolve", "operator"),
        (&format!("/v1/dead-letters/{id}/redrive"), "operator"),
        (&format!("{run}/approval"), "approver"),
        ("/v1/config", "admin"),
        ("/v1/backup", "admin"),
    ] {
        let (status, body) = vic.ask(path, "application/json", "{}");
        assert!(status == 403 && body.contains(&format!("needs role {role}")), "{path}: {status} {body}");
    }
    vic.refused(4, "needs role operator", &["environments", "create", "x", "--class", "test"]);
    // What programs work as, no operator says.
    let event = json!({"specversion": "1.0", "id": "identity-1", "source": "/here",
                       "type": "control.environments.v1.environment-created", "time": "2026-01-01T00:00:00Z",
                       "data": {"environmentId": "x", "tenantId": "acme", "projectId": "shop", "class": "test",
                                "region": "here", "targets": [], "identityRef": "roles/everything"}});
    let odo = stack.person("odo", "acme", &["operator"]);
    let (status, body) = odo.ask("/v1/events", "application/json", &event.to_string());
    assert!(status == 403 && body.contains("identityRef"), "{status} {body}");
    let nobody = stack.person("eve", "looking", &["chef"]);
    nobody.refused(4, "needs role viewer", &["runs", "list"]);
    let operator = stack.person("ole", "looking", &["operator"]);
    operator.ok(&["environments", "create", "looking-dev", "--class", "development"]);
    operator.refused(4, "needs role admin", &["config", "set", "web/greeting", "hello"]);
    let admin = stack.person("ann", "looking", &["admin"]);
    for _ in 0..2 {
        assert!(admin.ok(&["config", "set", "web/greeting", "hello"]).out.contains("version 1"));
    }
    assert!(admin.ok(&["config", "set", "web/greeting", "hallo"]).out.contains("version 2"));
    // A promotion is a plan and its approval: an operator has half of that.
    let repository = Repository::new();
    commit(&repository, "one");
    let path = repository.path();
    let args =
        ["promote", "--environment", "looking-dev", "--path", "app", "--repository", path.to_str().unwrap()];
    operator.refused(4, "needs role approver", &args);
    stack.hold();
}

#[test]
fn services_send_events_and_whoever_isnt_the_issuers_is_nobody() {
    let stack = &*DEPLOYED;
    let service = stack.person("EnvironmentService", "services", &["service"]);
    let event = |tenant: &str, id: &str| {
        json!({"specversion": "1.0", "id": id, "source": "/t", "type": "control.environments.v1.environment-created",
               "time": "2026-01-01T00:00:00Z", "data": {"environmentId": id, "tenantId": tenant, "projectId": "p",
               "class": "test", "region": "here", "targets": []}})
        .to_string()
    };
    // As text, and as bytes that come as base64.
    for (kind, id) in [("application/json", "told"), ("application/cloudevents+json", "told-too")] {
        let (status, body) = service.ask("/v1/events", kind, &event("services", id));
        assert_eq!(status, 202, "{body}");
        until("the environment", || service.ok(&["environments", "list"]).out.contains(id));
    }
    let (status, body) = service.ask("/v1/events", "application/json", &event("acme", "x"));
    assert!(status == 403 && body.contains("not your tenant"), "{status} {body}");
    let (status, body) = service.ask("/v1/events", "application/json", &"x".repeat(1_048_577));
    assert!(status == 413 && body.contains("1048576"), "{status} {body}");

    // Another tenant's things aren't there.
    let other = stack.person("oda", "other", &["admin"]);
    assert!(!other.ok(&["environments", "list"]).out.contains("told"));
    other.refused(5, "is unknown", &["receipts", "verify", "told"]);
    other.refused(5, "is unknown", &["plan", "--environment", "told", "--repository", "/r"]);

    let claims = stack.issuer.claims("ada", "services", &["admin"]);
    let forged = stack.bearer(SigningKey::ed25519("key-1").sign(&claims));
    let (status, body) = forged.ask("/v1/events", "application/json", "{}");
    assert!(status == 401 && body.contains("signature"), "{status} {body}");
    forged.refused(4, "signature is wrong", &["runs", "list"]);
    stack.person("RunControlService", "services", &["operator"]).refused(
        4,
        "role service",
        &["runs", "list"],
    );
    stack.bearer("nonsense".to_owned()).refused(4, "no token", &["runs", "list"]);
}

#[test]
fn what_a_stack_does_in_its_own_way_is_said() {
    let stack = &*DEPLOYED;
    let ann = stack.person("ann", "care", &["admin"]);
    ann.refused(4, &format!("bus {STACK}"), &["events", "list"]);
    for args in [&["up"][..], &["demo"], &["secrets", "set", "a"], &["backup", "now"]] {
        ann.refused(2, "works on this machine", args);
    }
    ann.refused(2, "the token is of ann", &["--as", "ben", "runs", "list"]);
    let (status, body) = ann.ask("/v1/backup", "application/json", "{}");
    assert!(status == 501 && body.contains("point-in-time"), "{status} {body}");

    let doctor = |name: &str| {
        let checks = ann.cli(&["--json", "doctor"]).json();
        let found = checks.as_array().unwrap().iter().find(|c| c["name"] == name).cloned().unwrap();
        (found["ok"] == true, found["detail"].as_str().unwrap().to_owned())
    };
    for name in ["tables", "versions", "invariants", "dead letters", "environments"] {
        let (ok, detail) = doctor(name);
        assert!(ok, "{name}: {detail}");
    }
    let bucket = |name: &str| format!("{STACK}-{name}-000000000000-us-east-1");
    let emulator = &stack.deployed.emulator;
    let lock = |rule: &str| {
        let enabled = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>";
        let xml = format!("<ObjectLockConfiguration>{enabled}{rule}</ObjectLockConfiguration>");
        emulator.put_s3(&format!("{}?object-lock", bucket("receipts")), &xml);
        doctor("receipts' lock")
    };
    let (ok, detail) = lock("");
    assert!(!ok && detail.contains("default retention"), "{detail}");
    let days = "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>";
    let (ok, detail) = lock(days);
    assert!(ok, "{detail}");
    emulator.put_s3(
        &format!("{}?versioning", bucket("artifacts")),
        "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
    );
    let (ok, detail) = doctor("versions");
    assert!(!ok && detail.contains(&bucket("artifacts")) && !detail.contains("receipts"), "{detail}");
    stack.hold();
}

#[test]
fn a_dead_letter_is_shown_to_its_tenant_and_sent_again() {
    let stack = &*DEPLOYED;
    let ole = stack.person("ole", "deadly", &["operator"]);
    let id = "00000000-0000-4000-8000-000000000002";
    let decision = json!({"approvalId": id, "tenantId": "deadly", "provisioningRunId": id, "planDigest": "0".repeat(64),
                          "decision": "approved", "decidedBy": "zoe", "decidedAt": "2026-11-01T00:00:00Z"});
    stack.deployed.send("control.approvals.v1.approval-decided", decision);
    let dead = || ole.ok(&["--json", "events", "dead"]).json().as_array().cloned().unwrap();
    let letter = poll("the dead letter", || dead().pop());
    let reason = letter["reason"].clone();
    let (status, body) = stack.person("oda", "other", &["admin"]).ask(
        &format!("/v1/dead-letters/{}/redrive", letter["id"].as_str().unwrap()),
        "application/json",
        "{}",
    );
    assert_eq!(status, 404, "{body}");
    ole.ok(&["events", "redrive", letter["id"].as_str().unwrap()]);
    // Its handler reads it as it did the first time, and comes to the same end.
    let again = poll("the dead letter again", || dead().pop().filter(|l| l["at"] != letter["at"]));
    assert_eq!(again["reason"], reason);
    stack.hold();
}
