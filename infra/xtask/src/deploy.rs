//! `cargo xtask deploy`: builds the functions, publishes the tools, and deploys template.yaml, to an account or to an
//! emulator.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::Workspace;
use crate::problem::Stop;
use crate::publish_tools::Bucket;
use crate::{emulator, publish_tools, pulumi};

/// The functions, by the names of their binaries.
pub const FUNCTIONS: &[&str] =
    &["planner", "applier", "run-watch", "inbound-events", "outbox-relay", "api", "runner"];

/// As the tests build it: another selection of packages would build everything again.
const ALL: &[&str] = &["--workspace", "--all-targets"];

/// Which of Pulumi's plugins are published.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Plugins {
    /// Nobody said: none, where the stack has none that would be lost.
    #[default]
    Unsaid,
    /// None, whatever the stack has.
    Without,
    /// Those of a folder.
    Of(PathBuf),
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The stack's name.
    pub stack: String,
    /// An emulator's address; None for the account of the credentials.
    pub endpoint: Option<String>,
    /// `development` or `production`; None for what the stack is, and for a new one what template.yaml says.
    pub class: Option<String>,
    /// What the functions are built for; None for this machine.
    pub target: Option<String>,
    /// Pulumi's plugins that are published too.
    pub plugins: Plugins,
    /// Unoptimised functions, and the provider of this machine among the tools: for emulators alone.
    pub development: bool,
    /// Further parameters of template.yaml, as NAME=VALUE. Those that aren't given stay as they are.
    pub parameters: Vec<String>,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
            stack: "runtime-cloud".to_owned(),
            endpoint: None,
            class: None,
            target: None,
            plugins: Plugins::Unsaid,
            development: false,
            parameters: vec![],
        }
    }
}

impl Wanted {
    /// Reads its options.
    pub fn parse(arguments: &[String]) -> Result<Wanted, Stop> {
        let mut wanted = Wanted::default();
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            if option == "--development" {
                wanted.development = true;
                continue;
            }
            let mut value =
                || rest.next().cloned().ok_or_else(|| Stop::new(format!("deploy {option} needs a value")));
            match option.as_str() {
                "--stack" => wanted.stack = value()?,
                "--endpoint" => wanted.endpoint = Some(value()?),
                "--class" => wanted.class = Some(value()?),
                "--target" => wanted.target = Some(value()?),
                "--plugins" => {
                    wanted.plugins = match value()? {
                        none if none == "none" => Plugins::Without,
                        folder => Plugins::Of(folder.into()),
                    }
                }
                "--parameter" => wanted.parameters.push(parameter(value()?)?),
                _ => return Err(Stop::new(format!("deploy knows no {option}"))),
            }
        }
        if wanted.development && wanted.endpoint.is_none() {
            return Err(Stop::new("--development is for emulators: give --endpoint URL"));
        }
        if let Some(target) = wanted.target.as_deref().filter(|target| !is_ours(target)) {
            let (here, system) = (env::consts::ARCH, env::consts::OS);
            return Err(Stop::new(format!(
                "functions for {target} can't start the Pulumi of this machine ({here}, {system}), which is published \
                 with them: deploy from a machine like the target, or give a target like this machine"
            )));
        }
        Ok(wanted)
    }

    fn architecture(&self) -> &'static str {
        let target = self.target.as_deref().unwrap_or(env::consts::ARCH);
        if target.starts_with("aarch64") { "arm64" } else { "x86_64" }
    }
}

/// Whether programs for a target are for machines like this one, as far as its name says.
pub fn is_ours(target: &str) -> bool {
    target.split('-').next() == Some(env::consts::ARCH) && target.contains(env::consts::OS)
}

fn parameter(given: String) -> Result<String, Stop> {
    match given.split_once('=') {
        Some((name, _)) if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()) => Ok(given),
        Some(_) | None => Err(Stop::new(format!("--parameter {given} is no NAME=VALUE"))),
    }
}

/// How AWS is called.
pub struct Aws {
    program: PathBuf,
    endpoint: Option<String>,
}

impl Aws {
    /// One command; what it printed.
    pub fn call(&self, arguments: &[&str]) -> Result<String, Stop> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null());
        command.env("AWS_PAGER", "");
        let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        // Of the two it reads the second alone. It comes before the profile's, which is the person's own choice.
        if let Some(region) = named("AWS_REGION") {
            command.env("AWS_DEFAULT_REGION", region);
        } else if self.endpoint.is_some() && named("AWS_DEFAULT_REGION").is_none() {
            command.env("AWS_DEFAULT_REGION", "us-east-1");
        }
        if let Some(endpoint) = &self.endpoint {
            command.env("AWS_ENDPOINT_URL", endpoint);
            if env::var_os("AWS_ACCESS_KEY_ID").is_none() {
                command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
            }
        }
        let output = command.output().map_err(Stop::of(self.program.display()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let what: Vec<&str> = arguments.iter().take(2).copied().collect();
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().rsplit('\r').next().unwrap_or_default();
        Err(Stop::new(format!("`aws {}` ended with {}: {said}", what.join(" "), output.status)))
    }

    /// The account that the credentials are of.
    pub fn account(&self) -> Result<String, Stop> {
        self.call(&["sts", "get-caller-identity", "--query", "Account", "--output", "text"])
    }
}

/// Builds, publishes and deploys.
pub fn run(wanted: &Wanted) -> Result<u8, Stop> {
    let workspace = Workspace::find()?;
    let tools = emulator::get(&workspace)?;
    let aws = Aws { program: tools.join("aws"), endpoint: wanted.endpoint.clone() };
    keep_plugins(&aws, wanted)?;
    let staged = stage(&workspace, wanted)?;
    let (bucket, manifest) = publish(&workspace, &aws, wanted)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let packaged = staged.join("packaged.yaml");
    aws.call(&[
        "cloudformation",
        "package",
        "--template-file",
        &text(&workspace.root.join("template.yaml")),
        "--s3-bucket",
        &bucket,
        "--s3-prefix",
        "functions",
        "--output-template-file",
        &text(&packaged),
    ])?;
    let mut parameters = vec![
        format!("Architecture={}", wanted.architecture()),
        format!("ToolsBucket={bucket}"),
        format!("ToolsManifest={manifest}"),
    ];
    // One that isn't given stays: a stack in production is not to lose its protection.
    parameters.extend(wanted.class.iter().map(|class| format!("Class={class}")));
    if wanted.endpoint.is_some() {
        // Functions run as processes of this machine there.
        parameters.push("CertificateFile=/etc/ssl/certs/ca-certificates.crt".to_owned());
        parameters.push("Archive=no".to_owned());
        parameters.push("OwnDisk=".to_owned());
    }
    // The last one of a name counts.
    parameters.extend(wanted.parameters.iter().cloned());
    let packaged = text(&packaged);
    let mut arguments = vec![
        "cloudformation",
        "deploy",
        "--template-file",
        &packaged,
        "--stack-name",
        &wanted.stack,
        "--s3-bucket",
        &bucket,
        "--capabilities",
        "CAPABILITY_IAM",
        "CAPABILITY_NAMED_IAM",
        "CAPABILITY_AUTO_EXPAND",
        "--no-fail-on-empty-changeset",
        "--parameter-overrides",
    ];
    arguments.extend(parameters.iter().map(String::as_str));
    aws.call(&arguments)?;
    let outputs = aws.call(&[
        "cloudformation",
        "describe-stacks",
        "--stack-name",
        &wanted.stack,
        "--query",
        "Stacks[0].Outputs",
        "--output",
        "json",
    ])?;
    let outputs: Value = serde_json::from_str(&outputs).unwrap_or_default();
    for output in outputs.as_array().into_iter().flatten() {
        let field = |name: &str| output.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        println!("{}: {}", field("OutputKey"), field("OutputValue"));
    }
    Ok(0)
}

/// `cargo xtask functions`: what deploy does of it, for who deploys by other means.
pub fn build_alone(wanted: &Wanted) -> Result<u8, Stop> {
    let staged = stage(&Workspace::find()?, wanted)?;
    eprintln!("{}", staged.display());
    println!("Architecture={}", wanted.architecture());
    Ok(0)
}

/// `cargo xtask publish-tools`: the same of the tools.
pub fn publish_alone(wanted: &Wanted) -> Result<u8, Stop> {
    let workspace = Workspace::find()?;
    let aws = Aws { program: emulator::get(&workspace)?.join("aws"), endpoint: wanted.endpoint.clone() };
    keep_plugins(&aws, wanted)?;
    let (bucket, manifest) = publish(&workspace, &aws, wanted)?;
    println!("ToolsBucket={bucket} ToolsManifest={manifest}");
    Ok(0)
}

/// Refuses to leave out, unsaid, plugins that the stack has: programs that need them would fail, and every plan that
/// waits would be stale.
fn keep_plugins(aws: &Aws, wanted: &Wanted) -> Result<(), Stop> {
    if wanted.plugins != Plugins::Unsaid {
        return Ok(());
    }
    let hint = "give --plugins DIR again, or --plugins none to have none";
    let stack = &wanted.stack;
    let untold =
        |e: Stop| Stop::new(format!("the plugins that stack {stack} has can't be told ({e}): {hint}"));
    let describe = ["cloudformation", "describe-stacks", "--stack-name", stack];
    let query = ["--query", "Stacks[0].Parameters", "--output", "json"];
    let said = match aws.call(&[describe, query].concat()) {
        Err(e) if e.to_string().contains("does not exist") => return Ok(()),
        other => other.map_err(untold)?,
    };
    let parameters: Vec<Value> = serde_json::from_str(&said).unwrap_or_default();
    let value = |name: &str| {
        let is_it = |p: &&Value| p.get("ParameterKey").is_some_and(|key| key == name);
        parameters.iter().find(is_it).and_then(|p| p.get("ParameterValue")).and_then(Value::as_str)
    };
    let (Some(bucket), Some(manifest)) = (value("ToolsBucket"), value("ToolsManifest")) else {
        return Ok(());
    };
    let manifest = format!("s3://{bucket}/{}", publish_tools::key(manifest));
    let text = aws.call(&["s3", "cp", "--only-show-errors", &manifest, "-"]).map_err(untold)?;
    let there = publish_tools::named(&text);
    if there.is_empty() {
        return Ok(());
    }
    let there = there.into_iter().collect::<Vec<_>>().join(", ");
    Err(Stop::new(format!("stack {stack} would lose its plugins {there}: {hint}")))
}

/// Puts the tools into the stack's bucket for them, which is made where it is missing.
fn publish(workspace: &Workspace, aws: &Aws, wanted: &Wanted) -> Result<(String, String), Stop> {
    let account = aws.account()?;
    let name = format!("{}-tools-{account}", wanted.stack);
    // Anybody can make a bucket of that name first; on an emulator nobody else is there.
    let bucket = Bucket { name, owner: wanted.endpoint.is_none().then_some(account) };
    if bucket.head(aws, &["head-bucket"]).is_err() {
        aws.call(&["s3", "mb", &format!("s3://{}", bucket.name)]).map_err(|e| {
            Stop::new(format!("{e}; where a bucket of that name is another account's, give another --stack"))
        })?;
    }
    let host: &[&str] = &["-p", "runtime-cloud-host"];
    let product = pulumi::build(workspace, if wanted.development { ALL } else { host })?;
    let local = wanted.development.then_some(product.as_path());
    let manifest = publish_tools::publish(
        aws,
        &bucket,
        &pulumi::get(&product)?.program,
        local,
        match &wanted.plugins {
            Plugins::Of(folder) => Some(folder),
            Plugins::Unsaid | Plugins::Without => None,
        },
    )?;
    Ok((bucket.name, manifest))
}

/// The package of the functions, as cargo selects it.
pub const FUNCTIONS_ALONE: &[&str] = &["-p", "runtime-cloud-functions"];

/// Builds the programs of packages as functions are deployed, with their symbols still there; their folder. For
/// development it is the build that the tests have, too.
pub fn build_functions(
    workspace: &Workspace,
    target: Option<&str>,
    development: bool,
    packages: &[&str],
) -> Result<PathBuf, Stop> {
    let mut build = workspace.resolving("build");
    if development {
        build.args(ALL);
    } else {
        build.args(packages).args(["--bins", "--profile", "lambda"]);
        build.args(["--config", "profile.lambda.strip=\"none\""]);
    }
    if let Some(target) = target {
        build.args(["--target", target]);
    }
    let built = build.status().map_err(Stop::of("cargo build"))?;
    if !built.success() {
        return Err(Stop::new("the functions do not build; see above"));
    }
    let profile = if development { "debug" } else { "lambda" };
    let folder = target.map_or_else(|| workspace.target.clone(), |target| workspace.target.join(target));
    Ok(folder.join(profile))
}

/// Symbols are for debuggers, and a function has none. Where strip isn't there it is only larger.
pub fn strip(program: &Path) {
    drop(Command::new("strip").arg(program).stdin(Stdio::null()).stderr(Stdio::null()).status());
}

/// Puts each function into a folder of its own, as template.yaml names them.
fn stage(workspace: &Workspace, wanted: &Wanted) -> Result<PathBuf, Stop> {
    let from = build_functions(workspace, wanted.target.as_deref(), wanted.development, FUNCTIONS_ALONE)?;
    // template.yaml names this folder.
    let staged = workspace.root.join("target").join("functions");
    for name in FUNCTIONS {
        let folder = staged.join(name);
        fs::create_dir_all(&folder).map_err(Stop::of(folder.display()))?;
        let bootstrap = folder.join("bootstrap");
        drop(fs::remove_file(&bootstrap));
        fs::copy(from.join(name), &bootstrap).map_err(Stop::of(bootstrap.display()))?;
        strip(&bootstrap);
    }
    Ok(staged)
}
