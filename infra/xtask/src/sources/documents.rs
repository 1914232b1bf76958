//! Paths that documents name, so that what they say of the code can be found there.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{Findings, Source};
use crate::problem::Problem;

/// Folders of the workspace: what begins with one of them and stands in backticks is a path.
const FOLDERS: &[&str] = &["events/", "shared/", "infra/", "functions/", "tests/", "docs/", ".ci/"];

pub(super) fn check(source: &Source, paths: &BTreeSet<&Path>, findings: &mut Findings) {
    for (index, line) in source.text.lines().enumerate() {
        let mut problem = |named: &str| {
            let what = format!("{named} is not there");
            let to_do = "name what is, or correct the path";
            findings.problems.push(Problem::new(&source.path, index + 1, what, to_do));
        };
        // Every second piece stands between two backticks.
        for named in line.split('`').skip(1).step_by(2).filter(|named| is_path(named)) {
            if !paths.contains(Path::new(named)) {
                problem(named);
            }
        }
        for link in links(line) {
            if !paths.contains(target(&source.path, link).as_path()) {
                problem(link);
            }
        }
    }
}

fn is_path(named: &str) -> bool {
    FOLDERS.iter().any(|folder| named.starts_with(folder))
        && named.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'))
}

/// Where `[text](path)` leads, if that is a file here.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let paths = targets.filter_map(|target| target.split('#').next());
    paths.filter(|path| !path.is_empty() && !path.contains("://"))
}

/// The file that a link of a document means.
fn target(document: &Path, link: &str) -> PathBuf {
    let mut path = document.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_not_there_are_told_at_their_line() {
        let text = "See `infra/a/src/b.rs` and `infra/a`,\nthen `infra/a/src/c.rs`, `tests/<name>.rs` and `cargo test`.\n\
                    [y](y.md#part) [b](https://example.com/b) [part](#part)\n[c](../infra/a) [z](z.md)\n";
        let source = Source { path: "docs/x.md".into(), text: text.into() };
        let mut findings = Findings::default();
        let paths = Path::new("infra/a/src/b.rs").ancestors().chain([Path::new("docs/y.md")]).collect();
        check(&source, &paths, &mut findings);
        let told: Vec<(usize, &str)> =
            findings.problems.iter().map(|problem| (problem.line, problem.what.as_str())).collect();
        assert_eq!(told, [(2, "infra/a/src/c.rs is not there"), (4, "z.md is not there")]);
    }
}
