//! Commands, their common arguments and their exit codes.

use std::path::PathBuf;

use ::events::{Principal, TenantId};
use clap::{CommandFactory, Parser, Subcommand};

use super::client::{CliError, Client};
use super::{demo, environments, events, maintenance, promote, receipts, runs, say, up};

/// Exit codes, as README.md documents them.
pub mod exit {
    /// Done.
    pub const OK: i32 = 0;
    /// It failed.
    pub const FAILED: i32 = 1;
    /// The command line is wrong.
    pub const USAGE: i32 = 2;
    /// No host answers.
    pub const NO_HOST: i32 = 3;
    /// Refused: by a rule, a policy or the state of things.
    pub const REFUSED: i32 = 4;
    /// There is no such thing.
    pub const NOT_FOUND: i32 = 5;
    /// The run that was watched ended without being applied.
    pub const NOT_APPLIED: i32 = 6;
    /// A check found something.
    pub const FOUND: i32 = 7;
    /// Whoever read the output has closed it; as a shell counts it.
    pub const CLOSED: i32 = 141;
}

/// Provisioning runs of declared specifications: recorded, approved, applied once.
#[derive(Parser)]
#[command(name = "runtime-cloud", version, about)]
pub struct Cli {
    /// The data folder; by default the platform's.
    #[arg(long, global = true, env = "RUNTIME_CLOUD_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Who asks.
    #[arg(long = "as", global = true, env = "RUNTIME_CLOUD_AS", value_name = "NAME")]
    person: Option<Principal>,
    /// Whose things.
    #[arg(long, global = true, default_value = "local", value_name = "TENANT")]
    tenant: TenantId,
    /// For programs: JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The whole of a promotion on this machine: plans, receipts, approvals, a refused stale plan.
    Demo(demo::Demo),
    /// The host.
    Up(up::Up),
    /// Environments.
    #[command(subcommand)]
    Environments(environments::Environments),
    /// Hands over a program for an environment, with your approval.
    Promote(promote::Promote),
    /// Plans a program, or an earlier run again.
    Plan(promote::Plan),
    /// Provisioning runs.
    #[command(subcommand)]
    Runs(runs::Runs),
    /// Approves the plan of a run that another person requested.
    Approve(runs::Approve),
    /// Rejects the plan of a run.
    Reject(runs::Reject),
    /// Receipts.
    #[command(subcommand)]
    Receipts(receipts::Receipts),
    /// Events in and out.
    #[command(subcommand)]
    Events(events::Events),
    /// Configuration values.
    #[command(subcommand)]
    Config(maintenance::Config),
    /// Secrets of the local broker.
    #[command(subcommand)]
    Secrets(maintenance::Secrets),
    /// What a person does where the machine can't know.
    #[command(subcommand)]
    Recover(maintenance::Recover),
    /// Backups of the store.
    #[command(subcommand)]
    Backup(maintenance::Backup),
    /// Looks at the host.
    Doctor,
    /// Finds, fetches or builds Pulumi, and says where it is.
    #[command(hide = true)]
    Tools,
    /// A completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// What every command knows.
pub struct Context {
    /// The data folder.
    pub data: PathBuf,
    /// Who asks.
    pub person: Principal,
    /// Whose things.
    pub tenant: TenantId,
    /// JSON.
    pub json: bool,
}

impl Context {
    /// A client of the host on the data folder.
    pub fn client(&self) -> Result<Client, CliError> {
        Client::of(&self.data, &self.person, &self.tenant)
    }
}

fn default_data() -> PathBuf {
    directories::ProjectDirs::from("", "", "runtime-cloud")
        .map_or_else(|| PathBuf::from(".runtime-cloud"), |d| d.data_dir().to_owned())
}

fn default_person() -> Result<Principal, CliError> {
    let user = std::env::var_os("USER").and_then(|u| u.into_string().ok()).filter(|u| !u.is_empty());
    Principal::new(user.unwrap_or_else(|| "owner".to_owned()))
        .map_err(|e| CliError::new(exit::USAGE, format!("{e}; name yourself with --as")))
}

/// Runs a command; its exit code.
pub fn main() -> i32 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let code = if e.use_stderr() { exit::USAGE } else { exit::OK };
            drop(e.print());
            return code;
        }
    };
    match run(cli) {
        Ok(code) => code,
        Err(e) => {
            if e.code != exit::CLOSED {
                say::aside(format_args!("runtime-cloud: {e}"));
            }
            e.code
        }
    }
}

fn run(cli: Cli) -> Result<i32, CliError> {
    let given = cli.data.is_some();
    let context = Context {
        data: cli.data.unwrap_or_else(default_data),
        person: match cli.person {
            Some(person) => person,
            None => default_person()?,
        },
        tenant: cli.tenant,
        json: cli.json,
    };
    match cli.command {
        Command::Demo(demo) => demo.run(&context, given),
        Command::Up(up) => up.run(&context),
        Command::Environments(command) => command.run(&context),
        Command::Promote(command) => command.run(&context),
        Command::Plan(command) => command.run(&context),
        Command::Runs(command) => command.run(&context),
        Command::Approve(command) => command.run(&context),
        Command::Reject(command) => command.run(&context),
        Command::Receipts(command) => command.run(&context),
        Command::Events(command) => command.run(&context),
        Command::Config(command) => command.run(&context),
        Command::Secrets(command) => command.run(&context),
        Command::Recover(command) => command.run(&context),
        Command::Backup(command) => command.run(&context),
        Command::Doctor => maintenance::doctor(&context),
        Command::Tools => up::tools(),
        Command::Completions { shell } => {
            let mut script = vec![];
            clap_complete::generate(shell, &mut Cli::command(), "runtime-cloud", &mut script);
            say::text(&script)?;
            Ok(exit::OK)
        }
    }
}
