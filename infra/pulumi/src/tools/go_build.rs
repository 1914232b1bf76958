//! Building Pulumi from Go modules, for machines that reach a module proxy but no release.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::run::run;
use super::{AttemptError, GoSettings, PULUMI, PULUMI_VERSION, Progress, YAML_HOST, YAML_HOST_VERSION};

/// Builds both programs into `programs`. Go checks every module against its checksum database.
pub(super) fn build(
    settings: &GoSettings,
    programs: &Path,
    progress: &dyn Fn(Progress),
) -> Result<(), AttemptError> {
    let version = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version";
    build_one(
        settings,
        &Program {
            name: PULUMI,
            module: "github.com/pulumi/pulumi/pkg/v3",
            version: PULUMI_VERSION.to_string(),
            package: "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            linker: format!("-s -w -X {version}=v{PULUMI_VERSION}"),
        },
        programs,
        progress,
    )?;
    let version = "github.com/pulumi/pulumi-yaml/pkg/version.Version";
    build_one(
        settings,
        &Program {
            name: YAML_HOST,
            module: "github.com/pulumi/pulumi-yaml",
            version: YAML_HOST_VERSION.to_string(),
            package: "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml",
            linker: format!("-s -w -X {version}=v{YAML_HOST_VERSION}"),
        },
        programs,
        progress,
    )
}

struct Program {
    name: &'static str,
    module: &'static str,
    version: String,
    package: &'static str,
    linker: String,
}

fn build_one(
    settings: &GoSettings,
    program: &Program,
    programs: &Path,
    progress: &dyn Fn(Progress),
) -> Result<(), AttemptError> {
    // `go install PACKAGE@VERSION` refuses modules that replace others; a module that requires them doesn't.
    let wrapper = tempfile::tempdir_in(programs)?;
    let requirement = format!("{} v{}", program.module, program.version);
    let text = format!("module runtime-cloud.invalid/{}\n\ngo 1.24\n\nrequire {requirement}\n", program.name);
    fs::write(wrapper.path().join("go.mod"), text)?;
    let mut command = Command::new(&settings.program);
    command
        .current_dir(wrapper.path())
        .args(["build", "-v", "-mod=mod", "-trimpath", "-ldflags"])
        .arg(&program.linker)
        .arg("-o")
        .arg(programs.join(program.name))
        .arg(program.package)
        // The user's Go settings stay, a workspace around the folder must not.
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off");
    let mut last_lines = VecDeque::new();
    let said = |line: String| {
        progress(Progress::Building { program: program.name, line: line.clone() });
        last_lines.push_back(line);
        if last_lines.len() > 5 {
            last_lines.pop_front();
        }
    };
    match run(&mut command, settings.limit, said) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(AttemptError::Absent { program: "go".into() })
        }
        Err(error) => Err(error.into()),
        Ok(None) => {
            Err(AttemptError::TooSlow { what: format!("building {}", program.name), limit: settings.limit })
        }
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(_)) => {
            let last_lines = Vec::from(last_lines).join(" / ");
            Err(AttemptError::BuildFailed { program: program.name, last_lines })
        }
    }
}
