//! What other programs complain about, as problems: file, line, what, what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::Message;
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel};
use serde_json::Value;

use crate::problem::Problem;

/// What `cargo fmt -- --check` prints: `Diff in PATH:LINE:` and the difference, for each place. One problem a file,
/// since one command corrects them all.
pub fn rustfmt(root: &Path, said: &str) -> Vec<Problem> {
    let place = |line: &str| -> Option<(PathBuf, usize)> {
        let (path, line) = line.strip_prefix("Diff in ")?.trim_end_matches(':').rsplit_once(':')?;
        let path = Path::new(path);
        Some((path.strip_prefix(root).unwrap_or(path).to_owned(), line.parse().ok()?))
    };
    let mut files: BTreeMap<PathBuf, BTreeSet<usize>> = BTreeMap::new();
    for (path, line) in said.lines().filter_map(place) {
        files.entry(path).or_default().insert(line);
    }
    let problem = |(path, lines): (&PathBuf, &BTreeSet<usize>)| {
        let what = format!("{} place(s) not as rustfmt writes them", lines.len());
        Problem::new(path, lines.first().copied().unwrap_or(1), what, "run `cargo fmt --all`")
    };
    files.iter().map(problem).collect()
}

/// What `cargo clippy --message-format=json` prints, each problem with the compiler's own picture of it. A file
/// that is compiled twice, for its tests too, is told once.
pub fn clippy(said: &[u8]) -> Vec<(Problem, String)> {
    let mut told = BTreeSet::new();
    let mut problems = Vec::new();
    for message in Message::parse_stream(said).map_while(Result::ok) {
        let Message::CompilerMessage(message) = message else { continue };
        let diagnostic = message.message;
        if !matches!(
            diagnostic.level,
            DiagnosticLevel::Error | DiagnosticLevel::Warning | DiagnosticLevel::Ice
        ) {
            continue;
        }
        // `aborting due to 2 previous errors` and its like have no place.
        let Some(span) = diagnostic.spans.iter().find(|span| span.is_primary) else { continue };
        let what = match &diagnostic.code {
            Some(code) => format!("{} ({})", diagnostic.message, code.code),
            None => diagnostic.message.clone(),
        };
        let problem = Problem::new(Path::new(&span.file_name), span.line_start, what, to_do(&diagnostic));
        if told.insert(problem.clone()) {
            problems.push((problem, diagnostic.rendered.unwrap_or_default()));
        }
    }
    problems
}

fn to_do(diagnostic: &Diagnostic) -> String {
    let help = diagnostic.children.iter().find(|child| child.level == DiagnosticLevel::Help);
    help.map_or_else(|| "correct it".to_owned(), |help| format!("help: {}", help.message))
}

/// What cargo-machete prints: `PACKAGE -- MANIFEST:`, then each dependency on an indented line.
pub fn machete(said: &str, manifest_text: impl Fn(&Path) -> String) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut manifest: Option<(PathBuf, String)> = None;
    for line in said.lines() {
        if let Some((_, path)) = line.split_once(" -- ") {
            let path = Path::new(path.trim_end_matches(':'));
            let path = path.strip_prefix(".").unwrap_or(path).to_owned();
            let text = manifest_text(&path);
            manifest = Some((path, text));
        } else if let (Some(dependency), Some((path, text))) = (line.strip_prefix('\t'), &manifest) {
            let names = |line: &str| {
                line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
            };
            let line = text.lines().position(names).map_or(1, |index| index + 1);
            problems.push(Problem::new(path, line, format!("{dependency} is not used"), "remove it"));
        } else {
            manifest = None;
        }
    }
    problems
}

/// What `cargo deny --format json` prints: one JSON object a line.
pub fn deny(said: &str, lock: &str) -> Vec<Problem> {
    said.lines().filter_map(|line| denied(&serde_json::from_str(line).ok()?, lock)).collect()
}

fn denied(line: &Value, lock: &str) -> Option<Problem> {
    let fields = line.get("fields")?;
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text(line, "type") != "diagnostic" || !matches!(text(fields, "severity").as_str(), "error" | "bug") {
        return None;
    }
    let labels = fields.get("labels").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let details: Vec<String> = labels
        .iter()
        .map(|label| format!("{} {}", text(label, "message"), text(label, "span")).trim().to_owned())
        .collect();
    let what = format!("{}: {}", text(fields, "message"), details.join(", "));
    let Some(graph) = fields.get("graphs").and_then(|graphs| graphs.get(0)) else {
        let line = labels.first().and_then(|label| label.get("line")).and_then(Value::as_u64).unwrap_or(1);
        let line = usize::try_from(line).unwrap_or(1);
        return Some(Problem::new(Path::new("deny.toml"), line, what, "correct deny.toml"));
    };
    let mut way = Vec::new();
    let mut at = Some(graph);
    while let Some(node) = at {
        way.push(node.get("Krate").map(|krate| text(krate, "name")).unwrap_or_default());
        at = node.get("parents").and_then(|parents| parents.get(0));
    }
    let crate_name = way.first().cloned().unwrap_or_default();
    let entry = format!("name = \"{crate_name}\"");
    let line = lock.lines().position(|line| line == entry).map_or(1, |index| index + 1);
    let what = format!("{crate_name}: {what}");
    let to_do = format!("do without it ({}), or let deny.toml allow it and say why", way.join(" <- "));
    Some(Problem::new(Path::new("Cargo.lock"), line, what, to_do))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rustfmt_is_told_by_file_at_its_first_place() {
        let said =
            "Diff in /w/a/src/b.rs:12:\n fn a() {\n-}\n+ }\nDiff in /w/a/src/b.rs:3:\nDiff in /w/c.rs:7:\n";
        assert_eq!(
            told(&rustfmt(Path::new("/w"), said)),
            [
                "a/src/b.rs:3: 2 place(s) not as rustfmt writes them; run `cargo fmt --all`",
                "c.rs:7: 1 place(s) not as rustfmt writes them; run `cargo fmt --all`"
            ]
        );
    }

    #[test]
    fn machete_is_told_at_the_line_of_the_dependency() {
        let said = "cargo-machete found the following unused dependencies in this directory:\n\
                    runtime-cloud-http -- ./shared/http/Cargo.toml:\n\ttracing\n\tserde\n\n\
                    If you believe cargo-machete has erred,\n\tsee this\n";
        let text = |path: &Path| {
            assert_eq!(path, Path::new("shared/http/Cargo.toml"));
            "[dependencies]\nserde_json = \"1\"\nserde = \"1\"\ntracing.workspace = true\n".to_owned()
        };
        assert_eq!(
            told(&machete(said, text)),
            [
                "shared/http/Cargo.toml:4: tracing is not used; remove it",
                "shared/http/Cargo.toml:3: serde is not used; remove it"
            ]
        );
    }

    #[test]
    fn deny_is_told_with_the_way_that_a_crate_came_in() {
        let said = r#"{"fields":{"code":"rejected","graphs":[{"Krate":{"name":"low","version":"1.0.0"},"parents":[{"Krate":{"name":"high","version":"1.0.0"}}]}],"labels":[{"column":1,"line":9,"message":"rejected","span":"X-1"}],"message":"no license","severity":"error"},"type":"diagnostic"}
{"fields":{"code":"c","graphs":[],"labels":[{"column":1,"line":7,"message":"","span":"key"}],"message":"unexpected","severity":"error"},"type":"diagnostic"}
{"fields":{"code":"c","graphs":[],"labels":[],"message":"only a warning","severity":"warning"},"type":"diagnostic"}
{"fields":{"bans":{"errors":0}},"type":"summary"}"#;
        assert_eq!(
            told(&deny(said, "[[package]]\nname = \"low\"\n")),
            [
                "Cargo.lock:2: low: no license: rejected X-1; do without it (low <- high), or let deny.toml allow it \
                 and say why",
                "deny.toml:7: unexpected: key; correct deny.toml"
            ]
        );
    }

    #[test]
    fn clippy_is_told_once_with_its_help() {
        let span = r#"{"file_name":"a/src/b.rs","byte_start":0,"byte_end":1,"line_start":5,"line_end":5,"column_start":1,"column_end":2,"is_primary":true,"text":[],"label":null,"suggested_replacement":null,"suggestion_applicability":null,"expansion":null}"#;
        let help =
            r#"{"message":"use ?","code":null,"level":"help","spans":[],"children":[],"rendered":null}"#;
        let diagnostic = format!(
            r#"{{"message":"used `unwrap()`","code":{{"code":"clippy::unwrap_used","explanation":null}},"level":"error","spans":[{span}],"children":[{help}],"rendered":"the picture"}}"#
        );
        let target = r#"{"kind":["lib"],"crate_types":["lib"],"name":"a","src_path":"a.rs","edition":"2024","doc":true,"doctest":true,"test":true}"#;
        let line = format!(
            r#"{{"reason":"compiler-message","package_id":"a 0.1.0","manifest_path":"Cargo.toml","target":{target},"message":{diagnostic}}}"#
        );
        let found = clippy(format!("{line}\n{line}\n").as_bytes());
        let [(problem, picture)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(problem.to_string(), "a/src/b.rs:5: used `unwrap()` (clippy::unwrap_used); help: use ?");
        assert_eq!(picture, "the picture");
    }
}
