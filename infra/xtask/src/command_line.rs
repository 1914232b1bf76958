//! The command line of `cargo xtask`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::deploy::Wanted;
use crate::problem::Stop;
use crate::{deploy, emulator, lint, package, pulumi, test, weigh};

const HELP: &str = "\
cargo xtask COMMAND

  test [FILTER..]      every test, those whose names contain a FILTER, or those of a program of tests that has this
                       name, with what they print; gets Pulumi first where it is missing
  lint [--advisories]  everything that CI refuses; --advisories also asks the database of known vulnerabilities
  tools                gets Pulumi and says where it is
  deploy [OPTION..]    builds the functions, publishes the tools, deploys template.yaml to the account of the
                       credentials: --stack NAME, --class development|production, --target TRIPLE,
                       --plugins DIR for Pulumi's plugins, as ~/.pulumi/plugins holds them, --plugins none for none
                       where the stack had some,
                       --parameter NAME=VALUE for any other parameter of template.yaml;
                       --endpoint URL deploys to an emulator, with --development from an unoptimised build
  functions            only builds the functions to where template.yaml looks for them, for `sam deploy`, and prints the
                       parameter that says for which machines: --target TRIPLE
  emulator [PORT]      runs an AWS emulator on 127.0.0.1, port 4566 unless another is given, until it is ended
  publish-tools        only publishes Pulumi and its plugins, and prints the two parameters of template.yaml that name
                       them: --stack NAME, --endpoint URL, --plugins DIR|none
  package [OPTION..]   makes the root file system of the runner's image, which functions/Dockerfile wraps:
                       --target TRIPLE, --certificates FILE, --development
  weigh [FOLDER]       what each function weighs, as it is deployed; needs valgrind, and builds for long, or takes
                       those that were built into FOLDER

RUNTIME_CLOUD_TEST_PULUMI names a folder with `pulumi` and `pulumi-language-yaml`; then nothing is fetched or built.
RUNTIME_CLOUD_TEST_EMULATOR names a folder with `ministack`, `microburst`, `aws`, `cfn-lint` and
`cargo-lambda`.
";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Help,
    Test { filters: Vec<String> },
    Lint { advisories: bool },
    Tools,
    Deploy(Wanted),
    Functions(Wanted),
    PublishTools(Wanted),
    Emulator(u16),
    Package(package::Wanted),
    Weigh { folder: Option<PathBuf> },
}

/// Runs a command; its exit code is 0, that of the tests, 1 for what was found or 2 for a wrong command line.
pub fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let asked = match parse(arguments) {
        Ok(asked) => asked,
        Err(wrong) => {
            eprintln!("xtask: {wrong}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let done = match asked {
        Asked::Help => {
            print!("{HELP}");
            Ok(0)
        }
        Asked::Test { filters } => test::run(&filters),
        Asked::Lint { advisories } => lint::run(advisories),
        Asked::Tools => pulumi::show(),
        Asked::Deploy(wanted) => deploy::run(&wanted),
        Asked::Functions(wanted) => deploy::build_alone(&wanted),
        Asked::Emulator(port) => emulator::serve(port),
        Asked::PublishTools(wanted) => deploy::publish_alone(&wanted),
        Asked::Package(wanted) => package::run(&wanted),
        Asked::Weigh { folder } => weigh::run(folder),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(stop) => {
            eprintln!("xtask: {stop}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked, Stop> {
    let Some(command) = arguments.next() else { return Ok(Asked::Help) };
    let rest: Vec<String> = arguments.collect();
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(Asked::Help);
    }
    if command == "deploy" {
        return Wanted::parse(&rest).map(Asked::Deploy);
    }
    if command == "functions" {
        return Wanted::parse(&rest).map(Asked::Functions);
    }
    if command == "emulator" {
        return match rest.as_slice() {
            [] => Ok(Asked::Emulator(emulator::PORT)),
            [port] => port.parse().map(Asked::Emulator).map_err(|_| Stop::new(format!("{port} is no port"))),
            _ => Err(Stop::new("emulator takes a port alone")),
        };
    }
    if command == "publish-tools" {
        return Wanted::parse(&rest).map(Asked::PublishTools);
    }
    if command == "package" {
        return package::Wanted::parse(&rest).map(Asked::Package);
    }
    let unknown = rest.iter().find(|argument| argument.starts_with('-') && *argument != "--advisories");
    match (command.as_str(), unknown) {
        ("help" | "--help" | "-h", _) => Ok(Asked::Help),
        (_, Some(flag)) => Err(Stop::new(format!("{command} knows no {flag}"))),
        ("test", None) if !rest.iter().any(|argument| argument == "--advisories") => {
            Ok(Asked::Test { filters: rest })
        }
        ("lint", None) if rest.iter().all(|argument| argument == "--advisories") => {
            Ok(Asked::Lint { advisories: !rest.is_empty() })
        }
        ("tools", None) if rest.is_empty() => Ok(Asked::Tools),
        ("weigh", None) if rest.len() <= 1 => Ok(Asked::Weigh { folder: rest.first().map(PathBuf::from) }),
        ("test" | "lint" | "tools" | "weigh", None) => {
            Err(Stop::new(format!("{command} does not take {}", rest.join(" "))))
        }
        _ => Err(Stop::new(format!("there is no command {command}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::Plugins;

    fn asked(line: &str) -> Result<Asked, String> {
        parse(line.split_whitespace().map(str::to_owned)).map_err(|stop| stop.to_string())
    }

    #[test]
    fn commands_are_understood() {
        assert_eq!(asked(""), Ok(Asked::Help));
        assert_eq!(asked("test --help"), Ok(Asked::Help));
        assert_eq!(asked("test"), Ok(Asked::Test { filters: vec![] }));
        assert_eq!(asked("test a b"), Ok(Asked::Test { filters: vec!["a".into(), "b".into()] }));
        assert_eq!(asked("lint"), Ok(Asked::Lint { advisories: false }));
        assert_eq!(asked("lint --advisories"), Ok(Asked::Lint { advisories: true }));
        assert_eq!(asked("tools"), Ok(Asked::Tools));
        let wanted = Wanted { stack: "rc".into(), class: Some("production".into()), ..Wanted::default() };
        assert_eq!(asked("deploy --stack rc --class production"), Ok(Asked::Deploy(wanted)));
        let wanted = Wanted { plugins: Plugins::Without, ..Wanted::default() };
        assert_eq!(asked("deploy --plugins none"), Ok(Asked::Deploy(wanted)));
        let target = Some("riscv64gc-unknown-linux-musl".into());
        let wanted = package::Wanted { target, ..package::Wanted::default() };
        assert_eq!(asked("package --target riscv64gc-unknown-linux-musl"), Ok(Asked::Package(wanted)));
        assert_eq!(asked("weigh"), Ok(Asked::Weigh { folder: None }));
        assert_eq!(asked("emulator"), Ok(Asked::Emulator(4566)));
        assert_eq!(asked("emulator 14566"), Ok(Asked::Emulator(14566)));
        assert_eq!(asked("functions"), Ok(Asked::Functions(Wanted::default())));
        assert_eq!(asked("publish-tools"), Ok(Asked::PublishTools(Wanted::default())));
    }

    #[test]
    fn wrong_ones_are_refused_by_name() {
        assert_eq!(asked("tset"), Err("there is no command tset".into()));
        assert_eq!(asked("test --nocapture"), Err("test knows no --nocapture".into()));
        assert_eq!(asked("test --advisories"), Err("test does not take --advisories".into()));
        assert_eq!(asked("lint domain"), Err("lint does not take domain".into()));
        assert_eq!(asked("deploy --stack"), Err("deploy --stack needs a value".into()));
        assert_eq!(asked("emulator http://x"), Err("http://x is no port".into()));
        assert!(asked("deploy --development").is_err_and(|e| e.contains("--endpoint")));
        let foreign = "riscv64gc-unknown-linux-gnu";
        assert!(asked(&format!("deploy --target {foreign}")).is_err_and(|e| e.contains("Pulumi")));
        assert!(asked(&format!("package --target {foreign}")).is_err_and(|e| e.contains("musl")));
        assert_eq!(asked("tools now"), Err("tools does not take now".into()));
    }
}
