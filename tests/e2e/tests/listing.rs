//! Lists of runs, which have no end: page by page, by the beginning of an id; and a watch of a far API that fails now
//! and then.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use runtime_cloud_e2e::{HostProcess, until};
use serde_json::{Value, json};

/// A run that waits: its environment isn't there yet.
fn promote(host: &HostProcess, token: &str, number: u32, environment: &str) -> String {
    let id = format!("{number:08x}-0000-4000-8000-000000000000");
    let event = json!({"specversion": "1.0", "id": id, "source": "/t",
      "type": "delivery.promotions.v1.promotion-approved", "time": "2026-01-01T00:00:00Z",
      "data": {"promotionId": id, "tenantId": "local", "projectId": "default", "environmentId": environment,
      "releaseId": id, "approval": {"approvalId": id, "decidedBy": "ada", "decidedAt": "2026-01-01T00:00:00Z"},
      "program": {"repository": "/r", "path": ".", "commit": "a".repeat(40)}, "configRefs": [], "secretRefs": []}});
    let before = host.runs().len();
    assert_eq!(host.post(token, "/v1/events", &event).status, 202);
    until("the run", || host.runs().len() == before + 1);
    host.runs()[0]["provisioningRunId"].as_str().unwrap().to_owned()
}

fn ids(runs: &Value) -> Vec<String> {
    let id = |r: &Value| r["provisioningRunId"].as_str().unwrap().to_owned();
    runs.as_array().unwrap().iter().map(id).collect()
}

#[test]
fn runs_are_listed_page_by_page_and_found_by_the_beginning_of_an_id() {
    let host = HostProcess::started();
    let token = host.token("ada", "local");
    let mut newest: Vec<String> =
        (1..=7).map(|n| promote(&host, &token, n, if n % 3 == 0 { "blue" } else { "green" })).collect();
    newest.reverse();
    let blue = vec![newest[1].clone(), newest[4].clone()];
    let get = |query: &str| {
        let reply = host.http(&token, &format!("GET /v1/provisioning-runs{query}"), &[], b"");
        (reply.status, reply.json())
    };
    assert_eq!(ids(&get("").1), newest);
    assert_eq!(ids(&get("?limit=3").1), newest[..3]);
    assert_eq!(ids(&get(&format!("?limit=3&after={}", newest[2])).1), newest[3..6]);
    assert_eq!(ids(&get(&format!("?after={}", newest[6])).1), Vec::<String>::new());
    assert_eq!(ids(&get("?environment=blue").1), blue);
    assert_eq!(ids(&get(&format!("?environment=blue&after={}", blue[0])).1), blue[1..]);
    assert_eq!(ids(&get(&format!("?beginning={}", &newest[0][..13].to_uppercase())).1), newest[..1]);
    for (query, status, names) in [
        ("?limit=0".to_owned(), 400, "from 1 to 100"),
        ("?limit=101".to_owned(), 400, "from 1 to 100"),
        (
            "?after=00000000-0000-4000-8000-000000000009".to_owned(),
            404,
            "00000000-0000-4000-8000-000000000009",
        ),
        (format!("?environment=blue&after={}", newest[0]), 400, "not of environment blue"),
        ("?beginning=%25".to_owned(), 400, "beginning"),
        ("?beginning=".to_owned(), 400, "beginning"),
        ("?beginning=0&environment=blue".to_owned(), 400, "limit alone"),
    ] {
        let (answered, problem) = get(&query);
        assert_eq!(answered, status, "{query}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(names), "{query}: {problem}");
    }
    // Another tenant has no such run to begin behind.
    let other = host.token("eve", "other");
    let reply = host.http(&other, &format!("GET /v1/provisioning-runs?after={}", newest[0]), &[], b"");
    assert_eq!(reply.status, 404);
    let reply = host.http(&other, "GET /v1/provisioning-runs?beginning=0", &[], b"");
    assert_eq!(reply.json(), json!([]));

    let listed = host.ok(&["runs", "list", "--limit", "2"]).out;
    assert!(listed.contains(&format!("older ones: --after {}", &newest[1][..8])), "{listed}");
    let rest = host.ok(&["--json", "runs", "list", "--limit", "5", "--after", &newest[1]]);
    assert_eq!(ids(&rest.json()), newest[2..]);
    assert!(!host.ok(&["runs", "list", "--limit", "7"]).out.contains("older ones"));
    let short = host.cli(&["--json", "runs", "show", &newest[3][..13]]);
    assert_eq!(short.json()["provisioningRunId"], newest[3]);
    assert_eq!(host.cli(&["runs", "show", "zz"]).code, host.cli(&["runs", "show", "ffffffff"]).code);
}

/// Says who asks; to anything else it gives these answers, one for each connection, and then the last one for ever,
/// and nothing at all for an empty one.
fn api(answers: Vec<String>) -> u16 {
    api_told(answers, Arc::default())
}

/// The same; what it is shown is kept.
fn api_told(answers: Vec<String>, shown: Arc<Mutex<Vec<String>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter().peekable();
        let mut answer = String::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut from = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut line) = (String::new(), String::new());
            from.read_line(&mut first).unwrap();
            while from.read_line(&mut line).is_ok_and(|n| n > 2) {
                if let Some((_, token)) = line.split_once("Bearer ") {
                    shown.lock().unwrap().push(token.trim().to_owned());
                }
                line.clear();
            }
            let said = if first.contains("/v1/caller") {
                self::answer("200 OK", &json!({"principal": "ada", "tenant": "local", "roles": ["viewer"]}))
            } else {
                answer = answers.next().unwrap_or(answer);
                answer.clone()
            };
            // Who was sent nothing sees an end.
            drop(stream.write_all(said.as_bytes()));
        }
    });
    port
}

fn answer(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

const RUN: &str = "00000000-0000-4000-8000-000000000001";

/// A run of a host as the API tells it, while it waits and when it is applied.
fn told(host: &HostProcess) -> (Value, Value) {
    promote(host, &host.token("ada", "local"), 1, "dev");
    let mut run = host.runs()[0].clone();
    run["provisioningRunId"] = json!(RUN);
    let mut applied = run.clone();
    applied["state"] = json!("Applied");
    (run, applied)
}

#[test]
fn a_watch_outlasts_an_api_that_fails_for_a_while_and_ends_where_it_refuses() {
    let host = HostProcess::started();
    let (run, applied) = told(&host);
    let file = host.data().join("token");
    std::fs::write(&file, "header.claims.signature").unwrap();
    let watch = |port: u16| {
        let server = format!("http://127.0.0.1:{port}");
        let file = file.to_str().unwrap();
        HostProcess::new().cli(&["--server", &server, "--token-file", file, "runs", "watch", RUN])
    };
    let busy = answer("503 Service Unavailable", &json!({"message": "busy"}));
    let throttled = answer("429 Too Many Requests", &json!({"message": "slow down"}));
    let answers = vec![
        answer("200 OK", &run),
        busy,
        throttled,
        String::new(),
        answer("200 OK", &run),
        answer("200 OK", &applied),
    ];
    let watched = watch(api(answers));
    assert_eq!(watched.code, 0, "{watched:?}");
    assert!(watched.out.contains("Applied"), "{watched:?}");
    let refused = answer(
        "403 Forbidden",
        &json!({"type": "forbidden", "title": "no", "status": 403, "detail": "not you"}),
    );
    let watched = watch(api(vec![answer("200 OK", &run), refused]));
    assert_ne!(watched.code, 0);
    assert!(watched.err.contains("not you"), "{watched:?}");
}

#[test]
fn a_watch_shows_the_token_that_its_file_holds_now() {
    let host = HostProcess::started();
    let (run, applied) = told(&host);
    let file = host.data().join("token");
    std::fs::write(&file, "old").unwrap();
    let shown = Arc::new(Mutex::new(vec![]));
    let mut answers = vec![answer("200 OK", &run); 3];
    answers.push(answer("200 OK", &applied));
    let server = format!("http://127.0.0.1:{}", api_told(answers, Arc::clone(&shown)));
    let renewed = file.clone();
    let seen = Arc::clone(&shown);
    let renews = std::thread::spawn(move || {
        // Who it is of, the run, and the first look of the watch.
        until("the watch", || seen.lock().unwrap().len() >= 3);
        std::fs::write(renewed, "new").unwrap();
    });
    let file = file.to_str().unwrap();
    let watched = HostProcess::new().cli(&["--server", &server, "--token-file", file, "runs", "watch", RUN]);
    renews.join().unwrap();
    assert_eq!(watched.code, 0, "{watched:?}");
    let shown = shown.lock().unwrap();
    assert_eq!((shown.first().unwrap().as_str(), shown.last().unwrap().as_str()), ("old", "new"));
}
