//! What the host costs: beside bare Pulumi, when it starts, when it idles, and from an event to its durable record.
//!
//! `RUNTIME_CLOUD_TEST_BINARY=target/release/runtime-cloud cargo bench -p runtime-cloud-benches`

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that can't be set up has no figures"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{HostProcess, Repository, poll, program};
use serde_json::{Value, json};

const PAIRS: usize = 9;
const EVENTS: usize = 200;

fn text(round: usize) -> String {
    let mut body = "resources:\n".to_owned();
    for n in 0..5 {
        let properties = format!("{{path: f{n}.txt, content: 'round {round}'}}");
        body.push_str(&format!("  f{n}: {{type: 'local:index:File', properties: {properties}}}\n"));
    }
    program(&body)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The same two commands as the runner's, with the same options, on a backend of their own.
struct Bare {
    folder: tempfile::TempDir,
    pulumi: PathBuf,
}

impl Bare {
    fn new(host: &HostProcess) -> Bare {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for part in ["program", "backend/.pulumi/stacks/app", "home/plugins/resource-local-v0.1.0", "local"] {
            std::fs::create_dir_all(root.join(part)).unwrap();
        }
        let empty = json!({"version": 3, "checkpoint": {"stack": "organization/app/bare", "latest": null}});
        std::fs::write(root.join("backend/.pulumi/stacks/app/bare.json"), empty.to_string()).unwrap();
        std::fs::write(root.join("backend/.pulumi/meta.yaml"), "version: 1\n").unwrap();
        std::fs::write(root.join("stack.yaml"), "{\"config\": {}}").unwrap();
        let provider = host.data().join("bin/pulumi-resource-local");
        let place = root.join("home/plugins/resource-local-v0.1.0/pulumi-resource-local");
        std::os::unix::fs::symlink(provider, place).unwrap();
        let found = host.ok(&["tools"]).json();
        Bare { folder, pulumi: found["pulumi"].as_str().unwrap().into() }
    }

    fn run(&self, args: &[&str]) {
        let root = self.folder.path();
        let mut path = self.pulumi.parent().unwrap().to_string_lossy().into_owned();
        path.push_str(":/usr/bin:/bin");
        let out = Command::new(&self.pulumi)
            .arg("-C")
            .arg(root.join("program"))
            .args(["--non-interactive", "--color", "never"])
            .args(args)
            .args(["--json", "--stack", "bare", "--config-file"])
            .arg(root.join("stack.yaml"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", root.join("home"))
            .env("PULUMI_HOME", root.join("home"))
            .env("PULUMI_BACKEND_URL", format!("file://{}", root.join("backend").display()))
            .env("PULUMI_CONFIG_PASSPHRASE", "benchmark")
            .env("PULUMI_SKIP_UPDATE_CHECK", "true")
            .env("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
            .env("RUNTIME_CLOUD_LOCAL_ROOT", root.join("local"))
            .output()
            .unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stdout));
    }

    fn plan_and_apply(&self, round: usize) -> Duration {
        let root = self.folder.path();
        std::fs::write(root.join("program/Pulumi.yaml"), text(round)).unwrap();
        let plan = root.join("plan.json").to_string_lossy().into_owned();
        let start = Instant::now();
        self.run(&["preview", "--refresh=false", &format!("--save-plan={plan}")]);
        // The host looks whether the state is still true, too.
        self.run(&["refresh", "--preview-only"]);
        self.run(&["up", "--yes", "--refresh=false", &format!("--plan={plan}")]);
        start.elapsed()
    }
}

/// The host's API, as a service would use it.
struct Api {
    agent: ureq::Agent,
    url: String,
    token: String,
}

impl Api {
    fn of(data: &Path) -> Api {
        let read = |p: PathBuf| serde_json::from_slice::<Value>(&std::fs::read(p).unwrap()).unwrap();
        let people = std::fs::read_dir(data.join("people")).unwrap();
        let person = people.map(|e| e.unwrap().path()).find(|p| p.extension().is_some()).unwrap();
        Api {
            agent: ureq::Agent::config_builder().http_status_as_error(false).build().new_agent(),
            url: read(data.join("host.json"))["url"].as_str().unwrap().to_owned(),
            token: format!("Bearer {}", read(person)["token"].as_str().unwrap()),
        }
    }

    fn promote(&self, id: &str, environment: &str, repository: &Path, commit: &str) {
        let event = json!({"specversion": "1.0", "id": id, "source": "/bench",
          "type": "delivery.promotions.v1.promotion-approved", "time": "2026-01-01T00:00:00Z", "data": {
            "promotionId": id, "tenantId": "local", "projectId": "default", "environmentId": environment,
            "releaseId": id, "approval": {"approvalId": id, "decidedBy": "ada", "decidedAt": "2026-01-01T00:00:00Z"},
            "program": {"repository": repository, "path": "app", "commit": commit}, "configRefs": [], "secretRefs": []}});
        let request = self.agent.post(format!("{}/v1/events", self.url)).header("authorization", &self.token);
        let answer = request.send(event.to_string().as_bytes()).unwrap();
        assert_eq!(answer.status().as_u16(), 202);
    }

    fn runs(&self, environment: &str) -> Vec<Value> {
        let url = format!("{}/v1/provisioning-runs?environment={environment}", self.url);
        let mut answer = self.agent.get(url).header("authorization", &self.token).call().unwrap();
        serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap()
    }
}

fn id(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012x}")
}

fn main() {
    let mut host = HostProcess::new();
    let mut ready = vec![];
    for _ in 0..PAIRS {
        let start = Instant::now();
        host.start(&[]);
        ready.push(start.elapsed().as_secs_f64() * 1000.0);
        host.stop();
    }
    host.start(&[]);
    println!("host ready: median {:.0} ms of {PAIRS}", median(&mut ready));
    host.environment("dev", "development");
    let api = Api::of(host.data());
    poll("the baseline", || api.runs("dev").iter().any(|r| r["state"] == "Applied").then_some(()));

    // Beside bare Pulumi, in turn; the first round of each makes the stack and is not counted.
    let repository = Repository::new();
    let bare = Bare::new(&host);
    let (mut hosts, mut bares, mut differences) = (vec![], vec![], vec![]);
    for round in 0..=PAIRS {
        let plain = bare.plan_and_apply(round).as_secs_f64() * 1000.0;
        let commit = repository.commit("app/Pulumi.yaml", &text(round));
        let promotion = id(round + 1);
        let start = Instant::now();
        api.promote(&promotion, "dev", &repository.path(), &commit);
        poll("the promotion", || {
            let all = api.runs("dev");
            let run = all.iter().find(|r| r["promotionId"] == json!(promotion))?;
            run["completedAt"].is_string().then(|| assert_eq!(run["state"], "Applied", "{run}"))
        });
        let through = start.elapsed().as_secs_f64() * 1000.0;
        if round > 0 {
            hosts.push(through);
            bares.push(plain);
            differences.push(through - plain);
        }
    }
    println!(
        "plan + apply of 5 resources: through the host {:.0} ms, bare {:.0} ms, difference {:.0} ms (medians of {PAIRS} pairs)",
        median(&mut hosts),
        median(&mut bares),
        median(&mut differences)
    );

    // From an event to the durable record of its run; no environment, so that nothing is planned beside it.
    let mut took = vec![];
    let commit = "a".repeat(40);
    for n in 0..EVENTS {
        let promotion = id(1000 + n);
        let environment = format!("nowhere-{n}");
        let start = Instant::now();
        api.promote(&promotion, &environment, Path::new("/nowhere"), &commit);
        loop {
            if api.runs(&environment).iter().any(|r| r["promotionId"] == json!(promotion)) {
                break;
            }
        }
        took.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    println!("event in to its run's record: median {:.1} ms of {EVENTS}", median(&mut took));

    host.stop();
    host.start(&[]);
    // Idle: after its first schedules have run.
    std::thread::sleep(Duration::from_secs(3));
    println!("idle: {} kB resident", host.resident());
}
