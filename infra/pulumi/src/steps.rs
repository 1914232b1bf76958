//! The programs that a session runs: what is asked of Pulumi, in its own words.

use std::path::Path;

use ports::runner::{Access, Job};
use process::{SecretFile, Secrets, Stdin, Step};

use crate::project::Project;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// The programs of a session.
pub(crate) struct Steps<'a> {
    pub workspace: &'a Workspace,
    pub program: &'a Path,
    pub stack: &'a str,
}

const PASSPHRASE: &str = "passphrase";
const PREVIEW: &str = "preview";
const UP: &str = "up";
/// The step that looks at what is there. It ends well whatever it finds: a plan doesn't fail with it.
pub(crate) const REFRESH: &str = "refresh";
/// How long that may take; what wasn't seen until then is unknown.
const REFRESH_LIMIT_MS: u64 = 120_000;

impl Steps<'_> {
    fn step(&self, name: &str, tools: &Tools, args: &[&str]) -> Step {
        let text = |p: &Path| p.to_string_lossy().into_owned();
        let mut argv = vec![text(&tools.pulumi), "-C".to_owned(), text(self.program)];
        argv.extend(["--non-interactive", "--color", "never"].map(str::to_owned));
        argv.extend(args.iter().map(|a| (*a).to_owned()));
        argv.extend(["--stack", self.stack, "--config-file"].map(str::to_owned));
        argv.push(text(&self.workspace.config()));
        let mut step = Step::new(name, argv, self.program, u64::MAX / 4);
        let once = SecretFile::Once(PASSPHRASE.to_owned());
        step.secret_files.insert("PULUMI_CONFIG_PASSPHRASE_FILE".to_owned(), once);
        step
    }

    pub fn plan(&self, tools: &Tools, job: &Job, project: &Project, new: bool) -> (Vec<Step>, Secrets) {
        let mut secrets = Secrets::new();
        secrets.insert(PASSPHRASE, job.passphrase.reveal());
        let mut steps = vec![];
        let mut set = |place: usize, key: &str, value: &str| {
            let name = format!("secret-{place}");
            secrets.insert(name.clone(), value);
            let mut step = self.step(&name, tools, &["config", "set", "--secret", key]);
            step.stdin = Stdin::Secret(name);
            // The salt is made with the first secret, which asks for the passphrase twice; no program runs there.
            if new && place == 0 {
                let again = SecretFile::Rereadable(PASSPHRASE.to_owned());
                step.secret_files.insert("PULUMI_CONFIG_PASSPHRASE_FILE".to_owned(), again);
            }
            steps.push(step);
        };
        for (place, (key, value)) in job.secrets.iter().enumerate() {
            set(place, &project.full_key(key), &project.as_declared(key, value.reveal()));
        }
        if new && job.secrets.is_empty() {
            set(0, "runtimecloud:salt", "salt");
            steps.push(self.step("salt", tools, &["config", "rm", "runtimecloud:salt"]));
        }
        let plan = self.workspace.plan().to_string_lossy().into_owned();
        let save = format!("--save-plan={plan}");
        steps.push(self.step(PREVIEW, tools, &["preview", "--json", "--refresh=false", &save]));
        if job.state.is_some() {
            // The plan rests on the state, not on what is there: a reader of the plan is told where they differ.
            let mut refresh = self.step(REFRESH, tools, &["refresh", "--preview-only", "--json"]);
            refresh.accepted_codes = (0..=255).collect();
            refresh.timeout_ms = REFRESH_LIMIT_MS;
            steps.push(refresh);
        }
        give(&job.access, &mut steps, &mut secrets);
        (steps, secrets)
    }

    pub fn apply(&self, tools: &Tools, job: &Job) -> (Vec<Step>, Secrets) {
        let mut secrets = Secrets::new();
        secrets.insert(PASSPHRASE, job.passphrase.reveal());
        let plan = format!("--plan={}", self.workspace.plan().to_string_lossy());
        // Never --skip-preview: a violation of the plan must be found before anything is changed.
        let up = self.step(UP, tools, &["up", "--yes", "--json", "--refresh=false", &plan]);
        let mut steps = vec![up];
        give(&job.access, &mut steps, &mut secrets);
        (steps, secrets)
    }
}

/// Gives the identity to the steps that run the program, and to no other.
fn give(access: &Access, steps: &mut [Step], secrets: &mut Secrets) {
    let named = |variable: &str| format!("access-{variable}");
    for (variable, value) in access.variables.iter().chain(&access.files) {
        secrets.insert(named(variable), value.reveal());
    }
    for step in steps.iter_mut().filter(|s| [PREVIEW, REFRESH, UP].contains(&s.name.as_str())) {
        step.secret_env.extend(access.variables.keys().map(|v| (v.clone(), named(v))));
        let files = access.files.keys().map(|v| (v.clone(), SecretFile::Rereadable(named(v))));
        step.secret_files.extend(files);
    }
}
