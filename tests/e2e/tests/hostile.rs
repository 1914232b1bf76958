//! Bad input: programs, references, repositories, receipts on disk.

use base64::Engine as _;
use runtime_cloud_e2e::{HostProcess, Repository, until};
use serde_json::json;

fn dev() -> (HostProcess, Repository) {
    let host = HostProcess::started();
    host.environment("dev", "development");
    (host, Repository::new())
}

/// Promotes and fails to be planned; the reason.
fn refused(host: &HostProcess, repository: &Repository, more: &[&str]) -> String {
    let run = host.promote("dev", repository, more);
    let end = host.failed(&run, "plan-failed");
    until("the event to have left", || host.events("provisioning-failed", &run).len() == 1);
    end.get("detail").and_then(|d| d.as_str()).unwrap_or_default().to_owned()
}

#[test]
fn programs_that_do_not_parse_are_refused_with_the_place() {
    let (host, repository) = dev();
    repository.commit("app/Pulumi.yaml", "name: app\nruntime: yaml\nresources: [\n");
    assert!(refused(&host, &repository, &[]).contains("Pulumi.yaml"));
    repository.program("resources:\n  a: {type: 'local:index:File', properties: {path: a.txt}}\n");
    assert!(refused(&host, &repository, &[]).contains("content"));
    repository.program("outputs: {x: '${nothing}'}\n");
    assert!(refused(&host, &repository, &[]).contains("nothing"));
    repository.commit("other/readme.txt", "no program here");
    repository.git(&["rm", "-rq", "app"]);
    repository.git(&["commit", "-qm", "gone"]);
    assert!(refused(&host, &repository, &[]).contains("app"));
    repository.commit("app/Pulumi.yaml", "name: app\nruntime: nodejs\n");
    refused(&host, &repository, &[]);
}

#[test]
fn programs_that_read_other_files_are_refused_before_pulumi_starts() {
    let (host, repository) = dev();
    repository.program("outputs:\n  x: {fn::readFile: /proc/self/environ}\n");
    assert!(refused(&host, &repository, &[]).contains("/proc/self/environ"));
    repository.program("plugins: {providers: [{name: evil, path: bin}]}\n");
    assert!(refused(&host, &repository, &[]).contains("plugins"));
    repository.commit("app/Pulumi.yaml", "name: app\nruntime: {name: yaml, options: {compiler: ./run}}\n");
    assert!(refused(&host, &repository, &[]).contains("runtime.options"));
    repository.program("outputs:\n  x: {fn::remoteAsset: 'file:///etc/passwd'}\n");
    assert!(refused(&host, &repository, &[]).contains("fn::remoteAsset"));
    std::os::unix::fs::symlink("/etc/passwd", repository.path().join("app/link.txt")).unwrap();
    repository.program("outputs:\n  x: {fn::readFile: link.txt}\n");
    refused(&host, &repository, &[]);
}

#[test]
fn a_program_that_does_nothing_is_applied_without_resources() {
    let (host, repository) = dev();
    repository.program("");
    let end = host.applied(&host.promote("dev", &repository, &[]));
    assert_eq!(end["planSummary"]["adds"], 0);
}

#[test]
fn secrets_that_a_program_gives_away_are_masked_everywhere() {
    let (host, repository) = dev();
    let secret = "s3cr3t \"päss\\word\" <&>";
    let text = base64::engine::general_purpose::STANDARD.encode(secret);
    let hex = hex::encode(secret);
    assert_eq!(host.cli_with(&["secrets", "set", "db/password"], secret).code, 0);
    // The provider says plainly what it was given; the program builds other encodings into what is not secret.
    repository.program(&format!(
        "config: {{password: {{type: string, secret: true}}}}
resources:
  a: {{type: 'local:index:File', properties: {{path: a.txt, content: 'b64 {text} hex {hex}'}}}}
  s: {{type: 'local:index:File', properties: {{path: s.txt, content: '${{password}}'}}}}
outputs:
  plain: ${{password}}
  b64: {{fn::toBase64: '${{password}}'}}
  json: {{fn::toJSON: {{password: '${{password}}'}}}}
  leaked: 'x {text} {hex} y'
"
    ));
    let run = host.promote("dev", &repository, &["--secret", "password=db/password"]);
    let end = host.applied(&run);
    assert_eq!(end["outputs"]["plain"], "[secret]");
    let forms =
        [secret.to_owned(), text, hex, serde_json::to_string(secret).unwrap().trim_matches('"').to_owned()];
    let shown = [
        end.to_string(),
        host.receipt(&run, "plan").to_string(),
        host.receipt(&run, "apply").to_string(),
        host.ok(&["runs", "logs", &run]).out,
        host.ok(&["--json", "events", "list", "--limit", "1000"]).out,
        host.log(),
    ];
    for form in &forms {
        for text in &shown {
            assert!(!text.contains(form.as_str()), "{form} in {text}");
        }
    }
    // On disk the value stands in its own file, and where the program put it; nowhere else.
    for file in host.files() {
        let path = file.to_string_lossy().into_owned();
        let own = path.contains("/secrets/") || path.contains("/local/") || path.contains("/git/");
        if own {
            continue;
        }
        let bytes = std::fs::read(&file).unwrap_or_default();
        for form in [&forms[0], &forms[3]] {
            let found = bytes.windows(form.len()).any(|w| w == form.as_bytes());
            assert!(!found, "{form} in {path}");
        }
    }
}

#[test]
fn what_turns_text_around_is_shown_as_its_number() {
    let (host, repository) = dev();
    repository.program(
        "resources:
  a: {type: 'local:index:File', properties: {path: a.txt, content: \"a\\u202Eb\"}}
",
    );
    let run = host.promote("dev", &repository, &[]);
    host.applied(&run);
    let shown = host.ok(&["receipts", "show", &run, "plan"]).out;
    assert!(shown.contains("a\\u{202e}b") && !shown.contains('\u{202E}'), "{shown}");
    let told = host.ok(&["--json", "receipts", "show", &run, "plan"]);
    assert!(told.json().to_string().contains('\u{202E}') && !told.out.contains('\u{202E}'), "{told:?}");
}

#[test]
fn references_that_name_nothing_fail_the_plan_by_name() {
    let (host, repository) = dev();
    repository.program("config: {a: {type: string, default: x}}\n");
    assert!(refused(&host, &repository, &["--config", "a=no/such"]).contains("no/such"));
    assert!(refused(&host, &repository, &["--secret", "a=no/secret"]).contains("no/secret"));
}

#[test]
fn a_branch_in_an_event_is_refused_with_how_to_resolve_it() {
    let host = HostProcess::started();
    let promotion = "00000000-0000-4000-8000-000000000001";
    let event = |commit: &str| {
        json!({"specversion": "1.0", "id": "1", "source": "/t", "type": "delivery.promotions.v1.promotion-approved",
        "time": "2026-01-01T00:00:00Z", "data": {"promotionId": promotion, "tenantId": "local", "projectId": "p",
        "environmentId": "dev", "releaseId": promotion, "approval": {"approvalId": promotion, "decidedBy": "ada",
        "decidedAt": "2026-01-01T00:00:00Z"}, "program": {"repository": "/r", "path": ".", "commit": commit},
        "configRefs": [], "secretRefs": []}})
    };
    let refused = host.cli_with(&["events", "send", "-"], &event("main").to_string());
    assert_eq!(refused.code, 4);
    assert!(
        refused.err.contains("data.program.commit") && refused.err.contains("git rev-parse"),
        "{refused:?}"
    );
    let mut missing = event(&"a".repeat(40));
    missing["data"].as_object_mut().unwrap().remove("releaseId");
    let refused = host.cli_with(&["events", "send", "-"], &missing.to_string());
    assert!(refused.err.contains("releaseId"), "{refused:?}");
    let refused = host.cli_with(&["events", "send", "-"], "{\"type\": 3}");
    assert_eq!(refused.code, 4);
    let mut foreign = event(&"a".repeat(40));
    foreign["data"]["tenantId"] = json!("other");
    assert_eq!(host.cli_with(&["events", "send", "-"], &foreign.to_string()).code, 4);
}

#[test]
fn repositories_and_commits_that_are_not_there_fail_the_plan() {
    let (host, repository) = dev();
    let commit = repository.program("");
    let path = repository.path();
    let event = |id: &str, repository: &str, commit: &str| {
        json!({"specversion": "1.0", "id": id, "source": "/t", "type": "delivery.promotions.v1.promotion-approved",
        "time": "2026-01-01T00:00:00Z", "data": {"promotionId": id, "tenantId": "local", "projectId": "default",
        "environmentId": "dev", "releaseId": id, "approval": {"approvalId": id, "decidedBy": "ada",
        "decidedAt": "2026-01-01T00:00:00Z"}, "program": {"repository": repository, "path": "app", "commit": commit},
        "configRefs": [], "secretRefs": []}})
        .to_string()
    };
    let run = |id: &str| {
        runtime_cloud_e2e::poll("the run", || {
            let all = host.runs();
            all.into_iter()
                .find(|r| r["promotionId"] == json!(id))
                .map(|r| r["provisioningRunId"].as_str().unwrap().to_owned())
        })
    };
    let gone = "00000000-0000-4000-8000-00000000000a";
    host.cli_with(&["events", "send", "-"], &event(gone, "/no/such/repository", &commit));
    host.failed(&run(gone), "plan-failed");
    let dropped = "00000000-0000-4000-8000-00000000000b";
    host.cli_with(&["events", "send", "-"], &event(dropped, path.to_str().unwrap(), &"b".repeat(40)));
    let end = host.failed(&run(dropped), "plan-failed");
    assert!(end["detail"].as_str().unwrap().contains(&"b".repeat(40)), "{end}");
}

fn many(repository: &Repository, resources: u32, letters: usize) {
    let content = "x".repeat(letters);
    let mut body = "resources:\n".to_owned();
    for n in 0..resources {
        let properties = format!("{{path: f{n}.txt, content: {content}}}");
        body.push_str(&format!("  f{n}: {{type: 'local:index:File', properties: {properties}}}\n"));
    }
    repository.program(&body);
}

#[test]
fn a_program_that_prints_too_much_is_stopped() {
    let mut host = HostProcess::new();
    host.settings(&json!({"outputLimitBytes": 20000, "stopGraceSeconds": 2}));
    host.start(&[]);
    host.environment("dev", "development");
    let repository = Repository::new();
    many(&repository, 400, 500);
    host.failed(&host.promote("dev", &repository, &[]), "output-limit");
}

#[test]
fn a_program_that_runs_too_long_is_stopped() {
    let mut host = HostProcess::new();
    host.settings(&json!({"planLimitSeconds": 1, "stopGraceSeconds": 1}));
    host.start(&[]);
    host.environment("dev", "development");
    let repository = Repository::new();
    many(&repository, 4000, 10);
    host.failed(&host.promote("dev", &repository, &[]), "timed-out");
}

#[test]
fn receipts_that_were_edited_deleted_or_swapped_are_named() {
    let (host, repository) = dev();
    repository
        .program("resources:\n  a: {type: 'local:index:File', properties: {path: a.txt, content: one}}\n");
    let run = host.promote("dev", &repository, &[]);
    let end = host.applied(&run);
    host.verified("dev");
    let digest = |which: &str| end[which].as_str().unwrap().to_owned();
    let blob =
        |digest: &str| host.files().into_iter().find(|f| f.ends_with(format!("blobs/{digest}"))).unwrap();
    let (plan, apply) = (blob(&digest("planReceipt")), blob(&digest("applyReceipt")));
    let (plan_bytes, apply_bytes) = (std::fs::read(&plan).unwrap(), std::fs::read(&apply).unwrap());
    let put = |file: &std::path::Path, bytes: &[u8]| {
        std::fs::remove_file(file).unwrap();
        std::fs::write(file, bytes).unwrap();
    };
    let broken = |what: &str| {
        let answer = host.cli(&["receipts", "verify", "dev"]);
        assert_eq!(answer.code, 7, "{what}: {answer:?}");
        assert!(answer.out.contains("BROKEN") && answer.out.contains(what), "{what}: {answer:?}");
    };
    // Edited.
    put(&apply, &[apply_bytes.clone(), b" ".to_vec()].concat());
    broken("was changed");
    // Swapped: the first that is wrong is named.
    put(&apply, &plan_bytes);
    put(&plan, &apply_bytes);
    broken(&digest("planReceipt"));
    // Deleted.
    put(&apply, &apply_bytes);
    std::fs::remove_file(&plan).unwrap();
    broken("is missing");
    std::fs::write(&plan, &plan_bytes).unwrap();
    host.verified("dev");
    let link = host.files().into_iter().find(|f| f.ends_with("chains/local/dev/0001-0000000001")).unwrap();
    put(&link, b"{}");
    broken("its copy");
}
