//! The API: what it refuses, and how it says so.

use std::collections::BTreeSet;

use runtime_cloud_e2e::{HostProcess, Reply, Repository, until};
use serde_json::{Value, json};

const PROMOTION: &str = "00000000-0000-4000-8000-000000000001";
const FILE: &str = "resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: one}}
";

fn promotion(id: &str, environment: &str, by: &str) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/t", "type": "delivery.promotions.v1.promotion-approved",
      "time": "2026-01-01T00:00:00Z", "data": {"promotionId": id, "tenantId": "local", "projectId": "default",
      "environmentId": environment, "releaseId": id, "approval": {"approvalId": id, "decidedBy": by,
      "decidedAt": "2026-01-01T00:00:00Z"}, "program": {"repository": "/r", "path": ".", "commit": "a".repeat(40)},
      "configRefs": [], "secretRefs": []}})
}

fn environment(id: &str) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/t", "type": "control.environments.v1.environment-created",
      "time": "2026-01-01T00:00:00Z", "data": {"environmentId": id, "tenantId": "local", "projectId": "default",
      "class": "development", "region": "here", "targets": []}})
}

/// A problem that names the thing; its text.
fn problem(reply: &Reply, status: u16, names: &str) -> String {
    assert_eq!((reply.status, reply.kind.as_str()), (status, "application/problem+json"), "{reply:?}");
    let problem = reply.json();
    assert_eq!(problem.get("status"), Some(&json!(status)), "{reply:?}");
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or_default().to_owned();
    assert!(detail.contains(names), "{names:?} is not in {detail:?}");
    detail
}

#[test]
fn a_person_promotes_in_their_own_name_alone() {
    let host = HostProcess::started();
    host.environment("prod", "production");
    let alice = host.token("alice", "local");
    let refused = host.post(&alice, "/v1/events", &promotion(PROMOTION, "prod", "zoe"));
    assert!(problem(&refused, 403, "zoe").contains("own name"));
    // A program that would run in a service's name is the same trick.
    let mut created = environment("fresh");
    created["data"]["baselineProgram"] =
        json!({"program": {"repository": "/r", "path": ".", "commit": "a".repeat(40)}});
    problem(&host.post(&alice, "/v1/events", &created), 403, "baselineProgram");
    // A service carries the decisions of those it asked.
    let service = host.token("EnvironmentPromotionService", "local");
    assert_eq!(host.post(&service, "/v1/events", &promotion(PROMOTION, "prod", "zoe")).status, 202);
    let own = promotion("00000000-0000-4000-8000-000000000002", "prod", "alice");
    assert_eq!(host.post(&alice, "/v1/events", &own).status, 202);
}

#[test]
fn every_refusal_is_a_problem_that_says_what_to_do() {
    let host = HostProcess::started();
    let token = host.token("ada", "local");
    let ask = |request: &str| host.http(&token, request, &[], b"");
    problem(&ask("GET /v1/nothing"), 404, "/v1/nothing");
    problem(&ask("GET /"), 404, "check the path");
    problem(&ask("DELETE /v1/events"), 405, "DELETE");
    problem(&ask("POST /healthz"), 405, "POST");
    problem(&ask("GET /v1/provisioning-runs/xyz"), 400, "xyz");
    problem(&ask("POST /v1/dead-letters/xyz/redrive"), 400, "xyz");
    problem(&ask("GET /v1/events?after=x"), 400, "after");
    problem(&ask("GET /v1/events?behind=1"), 400, "behind");
    problem(&ask("GET /v1/provisioning-runs?tenant=x"), 400, "tenant");
    problem(&ask("GET /v1/environments?class=x"), 400, "class");
    problem(&ask("GET /v1/doctor?all=x"), 400, "all");
    problem(&ask("POST /v1/backup?keep=1"), 400, "keep");
    problem(&host.http("wrong", "GET /v1/environments", &[], b""), 401, "Authorization");

    let json = ["content-type: application/json"];
    let post = |path: &str, headers: &[&str], body: &str| {
        host.http(&token, &format!("POST {path}"), headers, body.as_bytes())
    };
    problem(&post("/v1/config", &json, "{"), 400, "correct the body");
    problem(&post("/v1/config", &json, "{\"ref\": 1, \"value\": \"x\"}"), 400, "ref");
    problem(&post("/v1/config", &[], "{}"), 415, "content-type");
    problem(&post("/v1/config", &json, "{\"ref\": \"a\", \"value\": \"b\", \"odd\": 1}"), 400, "odd");
    problem(&post("/v1/resolve", &json, "{\"repository\": \"a\", \"ref\": \"b\", \"odd\": 1}"), 400, "odd");
    let run = format!("/v1/provisioning-runs/{PROMOTION}");
    problem(&post(&format!("{run}/cancel"), &json, "{\"reason\": \"a\", \"odd\": 1}"), 400, "odd");
    problem(&post(&format!("{run}/break"), &json, "{\"reason\": \"a\", \"odd\": 1}"), 400, "odd");
    let decision = "{\"decision\": \"approved\", \"planDigest\": \"a\", \"odd\": 1}";
    problem(&post(&format!("{run}/approval"), &json, decision), 400, "odd");
    problem(&post("/v1/environments/dev/clear", &json, "{\"settled\": true}"), 400, "settled");
    let plan = "{\"requestId\": \"1\", \"environmentId\": \"dev\", \"odd\": 1}";
    problem(&post("/v1/environments/dev/provisioning-runs", &json, plan), 400, "odd");
    let plan = "{\"requestId\": \"1\", \"environmentId\": \"dev\", \"configRefs\": [{\"key\": \"a\", \"ref\": \"b\", \"odd\": 1}]}";
    problem(&post("/v1/environments/dev/provisioning-runs", &json, plan), 400, "odd");

    let large = format!("{{\"ref\": \"a\", \"value\": \"{}\"}}", "x".repeat(1_048_576));
    problem(&post("/v1/config", &json, &large), 413, "1048576");
    problem(&post("/v1/events", &json, &large), 413, "1048576");
}

/// The document's rows: method and path.
fn documented() -> BTreeSet<(String, String)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let routes = cells.flat_map(|cell| cell.split(", ").map(|one| one.trim_matches('`').to_owned()));
    routes.filter_map(|one| one.split_once(' ').map(|(m, p)| (m.to_owned(), p.to_owned()))).collect()
}

#[test]
fn the_document_of_the_api_names_each_route_and_no_other() {
    let documented = documented();
    let host = HostProcess::started();
    let token = host.token("ada", "local");
    for (method, path) in &documented {
        let path =
            path.replace("{environment}", "dev").replace("{run}", PROMOTION).replace("{id}", PROMOTION);
        let body: &[u8] = if method == "GET" { b"" } else { b"{}" };
        let reply = host.http(&token, &format!("{method} {path}"), &["content-type: application/json"], body);
        let code = reply.json()["title"].as_str().unwrap_or_default().to_owned();
        assert!(!["no-route", "no-method"].contains(&&*code), "{method} {path}: {reply:?}");
    }
    // The table of routes, as it is written.
    let table = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/http/src/api.rs"));
    let table = table.unwrap();
    let routes: Vec<&str> = table.split(".route(").skip(1).collect();
    assert!(routes.len() > 15, "{routes:?}");
    for route in routes {
        let (path, method) = route.split_once(", ").unwrap();
        let method = method.split('(').next().unwrap().to_uppercase();
        let inside = path.split('"').nth(1).unwrap_or_default();
        let path = match path {
            "one" => "/v1/provisioning-runs/{run}".to_owned(),
            path if path.starts_with("&of(") => format!("/v1/provisioning-runs/{{run}}/{inside}"),
            _ => inside.to_owned(),
        };
        assert!(
            documented.contains(&(method.clone(), path.clone())),
            "{method} {path} is missing in docs/api.md"
        );
    }
}

#[test]
fn names_that_nothing_shows_as_they_are_are_refused() {
    let host = HostProcess::started();
    let token = host.token("ada", "local");
    for reference in ["", " ", "a\nb", "a\u{202E}b", "a\u{85}b"] {
        let refused = host.post(&token, "/v1/config", &json!({"ref": reference, "value": "x"}));
        problem(&refused, 400, "ref");
    }
    for odd in ["", "a\u{7}", "\u{2066}a"] {
        let mut event = environment("dev");
        event["source"] = json!(odd);
        problem(&host.post(&token, "/v1/events", &event), 400, "source");
        let mut event = environment("dev");
        event["data"]["environmentId"] = json!(odd);
        problem(&host.post(&token, "/v1/events", &event), 400, "environmentId");
    }
    let mut event = promotion(PROMOTION, "dev", "ada");
    event["data"]["strategy"] = json!("roll\u{202E}ing");
    problem(&host.post(&token, "/v1/events", &event), 409, "strategy");
    for odd in ["a\u{202A}", "a\u{1b}[2J"] {
        assert_eq!(host.cli(&["--as", odd, "runs", "list"]).code, 2);
        assert_eq!(host.cli(&["--tenant", odd, "runs", "list"]).code, 2);
    }
    // An event may have fields that nobody here knows.
    let mut event = environment("dev");
    event["data"]["later"] = json!(1);
    assert_eq!(host.post(&token, "/v1/events", &event).status, 202);
}

#[test]
fn the_same_id_for_something_else_is_a_conflict() {
    let host = HostProcess::started();
    let repository = Repository::new();
    let first = repository.program(FILE);
    let second = repository.program(&FILE.replace("one", "two"));
    host.environment("dev", "development");
    host.environment("test", "test");
    let token = host.token("ada", "local");
    let plan = |environment: &str, commit: &str, path: &str| {
        let program = json!({"repository": repository.path(), "path": path, "ref": commit});
        let body = json!({"requestId": "r1", "environmentId": environment, "program": program});
        host.post(&token, &format!("/v1/environments/{environment}/provisioning-runs"), &body)
    };
    let run = plan("dev", &first, "app");
    assert_eq!(run.status, 202, "{run:?}");
    let again = plan("dev", &first, "app");
    assert_eq!(again.json()["provisioningRunId"], run.json()["provisioningRunId"]);
    for other in [plan("dev", &second, "app"), plan("dev", &first, "."), plan("test", &first, "app")] {
        problem(&other, 409, "requestId");
    }
    // So is a promotion's.
    let run = host.promote("dev", &repository, &["--promotion", PROMOTION]);
    until("the promotion to be a run", || !host.run(&run).is_null());
    let path = repository.path();
    let path = path.to_str().unwrap();
    let other = ["promote", "--environment", "test", "--promotion", PROMOTION, "--repository", path];
    let other = host.cli(&[&other[..], &["--path", "app"]].concat());
    assert_eq!(other.code, 4, "{other:?}");
    assert!(other.err.contains("promotionId") && other.out.is_empty(), "{other:?}");
}

#[test]
fn a_run_is_planned_again_in_its_own_environment_alone() {
    let host = HostProcess::started();
    let repository = Repository::new();
    repository.program(FILE);
    host.environment("dev", "development");
    host.environment("test", "test");
    let run = host.plan("dev", &repository, &[]);
    let elsewhere = host.cli(&["plan", "--environment", "test", "--rerun", &run]);
    assert_eq!(elsewhere.code, 4, "{elsewhere:?}");
    assert!(elsewhere.err.contains("dev"), "{elsewhere:?}");
    host.ok(&["plan", "--rerun", &run]);
}

#[test]
fn what_is_unknown_is_not_found() {
    let host = HostProcess::started();
    host.environment("dev", "development");
    let token = host.token("ada", "local");
    for args in [
        &["receipts", "verify", "nope"][..],
        &["recover", "clear", "nope"][..],
        &["recover", "settle", "nope"][..],
        &["plan", "--environment", "nope", "--repository", "."][..],
        &["--tenant", "other", "receipts", "verify", "dev"][..],
    ] {
        let answer = host.cli(args);
        assert_eq!(answer.code, 5, "{args:?}: {answer:?}");
        assert!(answer.err.contains("is unknown") && !answer.err.contains("Slots/"), "{answer:?}");
    }
    let body = json!({"requestId": "1", "environmentId": "dev", "rerunOf": PROMOTION});
    problem(&host.post(&token, "/v1/environments/dev/provisioning-runs", &body), 404, PROMOTION);
}

#[test]
fn a_token_lasts_as_long_as_its_file() {
    let host = HostProcess::started();
    let mallory = host.token("mallory", "local");
    let list = |token: &str| host.http(token, "GET /v1/environments", &[], b"").status;
    assert_eq!(list(&mallory), 200);
    let file = host.data().join("people/mallory@local.json");
    let text = std::fs::read_to_string(&file).unwrap();
    // Replaced: the new one counts, the old one doesn't.
    std::fs::write(&file, text.replace(&mallory, "rc_other")).unwrap();
    assert_eq!((list(&mallory), list("rc_other")), (401, 200));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(list("rc_other"), 401);
}

#[test]
fn an_odd_entry_among_the_people_keeps_nobody_out() {
    let host = HostProcess::started();
    let people = host.data().join("people");
    std::fs::create_dir_all(people.join("folder.json")).unwrap();
    std::fs::write(people.join("damaged.json"), "{").unwrap();
    std::os::unix::fs::symlink("/nowhere", people.join("gone.json")).unwrap();
    std::os::unix::fs::symlink("/nowhere", people.join(".x.tmp")).unwrap();
    host.ok(&["--as", "newcomer", "runs", "list"]);
    for name in ["folder.json", "damaged.json", "gone.json"] {
        assert!(host.log().contains(name), "{name} is not named");
    }
    assert!(!host.log().contains(".x.tmp"));
}

#[test]
fn a_promotion_that_becomes_a_dead_letter_ends_its_watch_and_is_its_tenants_alone() {
    let host = HostProcess::started();
    let repository = Repository::new();
    let commit = repository.program(FILE);
    let token = host.token("ada", "local");
    // More runs than may wait in an environment that isn't there yet.
    for n in 0..200 {
        let mut event = promotion(&format!("00000000-0000-4000-8000-{n:012}"), "full", "ada");
        event["data"]["program"] = json!({"repository": "/r", "path": format!("p{n}"), "commit": commit});
        assert_eq!(host.post(&token, "/v1/events", &event).status, 202);
    }
    until("the queue to be full", || host.runs().len() == 200);
    // Many more of another tenant, and older ones.
    let store = rusqlite::Connection::open(host.data().join("store.sqlite")).unwrap();
    store.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    store
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100)
             INSERT INTO Messages (seq, id, queue, grp, body, correlation, state, visible_at, sent_at, settled_at)
             SELECT -i, 'other-' || i, 'gone', 'g', CAST('{\"tenant\": \"other\"}' AS BLOB), 'c', 'dead', 0, 0, 0 FROM n",
        )
        .unwrap();
    let doctor = |tenant: &str| {
        let checks = host.cli(&["--tenant", tenant, "--json", "doctor"]).json();
        let checks = checks.as_array().unwrap().clone();
        checks.iter().find(|c| c["name"] == "dead letters").unwrap()["detail"].as_str().unwrap().to_owned()
    };
    assert_eq!(doctor("local"), "no dead letters");
    assert!(doctor("other").contains("1100"), "{}", doctor("other"));

    let path = repository.path();
    let args = ["promote", "--environment", "full", "--path", "app", "--watch", "--repository"];
    let watched = host.cli(&[&args[..], &[path.to_str().unwrap()]].concat());
    assert_eq!(watched.code, 4, "{watched:?}");
    assert!(watched.err.contains("events dead"), "{watched:?}");
    let dead = host.ok(&["--json", "events", "dead"]).json();
    let id = dead[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(dead.as_array().map(Vec::len), Some(1));
    assert_eq!(host.cli(&["--tenant", "other", "events", "redrive", &id]).code, 5);
    host.ok(&["events", "redrive", &id]);
}

#[test]
fn what_was_said_of_an_environment_before_comes_too_late() {
    let host = HostProcess::started();
    let service = host.token("EnvironmentService", "local");
    let describe = |id: &str, time: &str, region: &str| {
        let mut event = environment("dev");
        event["id"] = json!(id);
        event["time"] = json!(time);
        event["data"]["region"] = json!(region);
        assert_eq!(host.post(&service, "/v1/events", &event).status, 202);
    };
    let region = || host.http(&service, "GET /v1/environments/dev", &[], b"").json()["region"].clone();
    describe("2", "2026-01-02T00:00:00Z", "second");
    until("the environment", || region() == "second");
    describe("1", "2026-01-01T00:00:00Z", "first");
    describe("3", "2026-01-03T00:00:00Z", "third");
    until("the third", || region() == "third");
    describe("2-again", "2026-01-02T00:00:00Z", "second");
    // Whoever is behind it has been handled after it: they are of one group.
    describe("4", "2026-01-04T00:00:00Z", "fourth");
    until("the fourth", || {
        let now = region();
        assert!(now == "third" || now == "fourth", "{now}");
        now == "fourth"
    });
    let unknown = host.http(&service, "GET /v1/environments/other", &[], b"");
    problem(&unknown, 404, "environment other");
    let foreign = host.token("eve", "elsewhere");
    problem(&host.http(&foreign, "GET /v1/environments/dev", &[], b""), 404, "environment dev");
}

#[test]
fn what_no_key_and_no_queue_takes_is_refused_by_its_name() {
    let host = HostProcess::started();
    let token = host.token("ada", "local");
    let mut wide = environment(&"\u{6771}".repeat(34));
    wide["id"] = json!("wide");
    problem(&host.post(&token, "/v1/events", &wide), 400, "environmentId takes 306 bytes");
    for field in ["correlationid", "causationid", "subject"] {
        for odd in [json!("a\nb"), json!(""), json!("x".repeat(257))] {
            let mut event = environment("dev");
            event[field] = odd;
            problem(&host.post(&token, "/v1/events", &event), 400, field);
        }
    }
}

#[test]
fn lists_of_environments_and_dead_letters_come_in_pages() {
    let host = HostProcess::started();
    let token = host.token("ada", "local");
    for name in ["c", "a", "b"] {
        host.environment(name, "development");
    }
    let ids = |query: &str| -> Vec<String> {
        let listed = host.http(&token, &format!("GET /v1/environments{query}"), &[], b"").json();
        let listed = listed.as_array().unwrap();
        listed.iter().map(|e| e["environmentId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(""), ["a", "b", "c"]);
    assert_eq!(ids("?limit=2"), ["a", "b"]);
    assert_eq!(ids("?after=b"), ["c"]);
    problem(&host.http(&token, "GET /v1/environments?limit=501", &[], b""), 400, "from 1 to 500");
    assert_eq!(host.http(&token, "GET /v1/dead-letters?limit=1", &[], b"").json(), json!([]));
}
