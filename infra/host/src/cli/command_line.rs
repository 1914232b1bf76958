//! Commands, their common arguments and their exit codes.

use std::path::PathBuf;

use ::events::{Principal, TenantId};
use clap::{CommandFactory, Parser, Subcommand};
use http_api::Caller;

use super::client::{CliError, Client};
use super::server::Server;
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
    /// Whose things; by default `local`.
    #[arg(long, global = true, value_name = "TENANT")]
    tenant: Option<TenantId>,
    /// A deployed API, in the place of this machine's host.
    #[arg(long, global = true, env = "RUNTIME_CLOUD_SERVER", value_name = "URL")]
    server: Option<String>,
    /// The file with the token for it, which says who you are and whose things you see.
    #[arg(long, global = true, env = "RUNTIME_CLOUD_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
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

impl Command {
    /// Whether it asks the API; the others work on this machine.
    const fn asks(&self) -> bool {
        !matches!(
            self,
            Command::Demo(_)
                | Command::Up(_)
                | Command::Secrets(_)
                | Command::Backup(_)
                | Command::Tools
                | Command::Completions { .. }
        )
    }
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
    /// A deployed API; None for the host on the data folder.
    pub server: Option<Server>,
}

impl Context {
    /// A client of the deployed API, or of the host on the data folder.
    pub fn client(&self) -> Result<Client, CliError> {
        match &self.server {
            Some(server) => Client::at(server),
            None => Client::of(&self.data, &self.person, &self.tenant),
        }
    }

    /// Refuses what only this machine can do.
    pub fn here(&self, command: &str, instead: &str) -> Result<(), CliError> {
        let Some(server) = &self.server else { return Ok(()) };
        let message = format!(
            "`{command}` works on this machine, not on {}; leave out --server and RUNTIME_CLOUD_SERVER{instead}",
            server.url
        );
        Err(CliError::new(exit::USAGE, message))
    }
}

/// Who asks, and whose things: a token says both, else the flags do.
fn asker(
    server: Option<&Server>,
    person: Option<Principal>,
    tenant: Option<TenantId>,
) -> Result<(Principal, TenantId), CliError> {
    let Some(server) = server else {
        let local = || TenantId::new("local").map_err(CliError::failed);
        return Ok((person.map_or_else(default_person, Ok)?, tenant.map_or_else(local, Ok)?));
    };
    let caller: Caller = Client::at(server)?.get("/v1/caller")?;
    let other = person.is_some_and(|p| p != caller.principal) || tenant.is_some_and(|t| t != caller.tenant);
    if other {
        let message = format!(
            "the token is of {} in tenant {}; leave out --as, RUNTIME_CLOUD_AS and --tenant, or give another token",
            caller.principal, caller.tenant
        );
        return Err(CliError::new(exit::USAGE, message));
    }
    Ok((caller.principal, caller.tenant))
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
    let server = cli.server.filter(|url| !url.is_empty());
    let server = server.map(|url| Server::new(&url, cli.token_file)).transpose()?;
    let asking = server.as_ref().filter(|_| cli.command.asks());
    let (person, tenant) = asker(asking, cli.person, cli.tenant)?;
    let data = cli.data.unwrap_or_else(default_data);
    let context = Context { data, person, tenant, json: cli.json, server };
    match cli.command {
        Command::Demo(demo) => {
            context.here("demo", "")?;
            demo.run(&context, given)
        }
        Command::Up(up) => {
            context.here("up", "")?;
            up.run(&context)
        }
        Command::Environments(command) => command.run(&context),
        Command::Promote(command) => command.run(&context),
        Command::Plan(command) => command.run(&context),
        Command::Runs(command) => command.run(&context),
        Command::Approve(command) => command.run(&context),
        Command::Reject(command) => command.run(&context),
        Command::Receipts(command) => command.run(&context),
        Command::Events(command) => command.run(&context),
        Command::Config(command) => command.run(&context),
        Command::Secrets(command) => {
            context.here("secrets set", ", or put the secret into Secrets Manager")?;
            command.run(&context)
        }
        Command::Recover(command) => command.run(&context),
        Command::Backup(command) => {
            context.here("backup", ", or use DynamoDB's point-in-time recovery")?;
            command.run(&context)
        }
        Command::Doctor => maintenance::doctor(&context),
        Command::Tools => up::tools(),
        Command::Completions { shell } => {
            let mut script = vec![];
            clap_complete::generate(shell, &mut Cli::command(), "runtime-cloud", &mut script);
            say::raw(&script)?;
            Ok(exit::OK)
        }
    }
}
