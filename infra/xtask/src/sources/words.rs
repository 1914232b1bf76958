//! Words that don't belong where they stand: a cloud's SDK outside its crate, folders of one person's machine.

use std::path::Path;

use super::{Findings, Source};
use crate::problem::Problem;

// Put together here, so that this file doesn't name what it refuses.
const SDK_IMPORT: &str = concat!("aws", "_sdk_");
const SDK_PACKAGE: &str = concat!("aws", "-sdk-");
const HOMES: &[&str] =
    &[concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/"), concat!(":\\Us", "ers\\")];

pub(super) fn check(root: &Path, source: &Source, findings: &mut Findings) {
    let is = |extension: &str| source.path.extension().is_some_and(|found| found == extension);
    // Every version stands in the workspace's own manifest; everything resolved stands in the lock file.
    let of_all = source.path == Path::new("Cargo.toml") || source.path == Path::new("Cargo.lock");
    let manifest = source.path.file_name().is_some_and(|name| name == "Cargo.toml");
    let sdk_refused = (is("rs") || manifest) && !of_all && !source.path.starts_with("infra/aws");
    let here = here(root);
    for (index, line) in source.text.lines().enumerate() {
        let mut problem = |what: String, to_do: &str| {
            findings.problems.push(Problem::new(&source.path, index + 1, what, to_do));
        };
        if sdk_refused && (line.contains(SDK_IMPORT) || manifest && line.contains(SDK_PACKAGE)) {
            problem("the AWS SDK outside infra/aws".to_owned(), "call it there, behind a port");
        }
        let homes = HOMES.iter().copied().chain(here.as_deref());
        if let Some(folder) = homes.into_iter().find(|folder| names(line, folder)) {
            let to_do = "make it relative, or take it from a setting";
            problem(format!("the folder {folder} of one machine"), to_do);
        }
    }
}

/// The workspace's own folder, unless it is a word that anybody might write.
fn here(root: &Path) -> Option<String> {
    (root.components().count() > 2).then(|| format!("{}/", root.display()))
}

/// Whether a line names an absolute folder: not as the middle of a longer path or URL.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '~' | '*' | '/'))
            || folder.starts_with(':')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let mut findings = Findings::default();
        let source = Source { path: path.into(), text: text.into() };
        check(Path::new("/srv/builds/7"), &source, &mut findings);
        findings.problems.into_iter().map(|problem| (problem.line, problem.what)).collect()
    }

    #[test]
    fn the_sdk_is_only_named_in_its_crate() {
        let import = format!("\nuse {SDK_IMPORT}s3::Client;\n");
        let package = format!("[dependencies]\n{SDK_PACKAGE}s3 = \"1\"\n");
        let expected = |line| vec![(line, "the AWS SDK outside infra/aws".to_owned())];
        assert_eq!(found("shared/ports/src/store.rs", &import), expected(2));
        assert_eq!(found("infra/host/Cargo.toml", &package), expected(2));
        assert_eq!(found("infra/aws/src/rows.rs", &import), []);
        assert_eq!(found("infra/aws/Cargo.toml", &package), []);
        assert_eq!(found("Cargo.toml", &package), []);
        assert_eq!(found("Cargo.lock", &package), []);
        assert_eq!(found("README.md", &package), []);
    }

    #[test]
    fn folders_of_one_machine_are_refused() {
        for folder in HOMES.iter().copied().chain(["/srv/builds/7/"]) {
            let expected = vec![(2, format!("the folder {folder} of one machine"))];
            assert_eq!(found("docs/a.md", &format!("\nin {folder}someone/x\n")), expected);
            assert_eq!(found("a.rs", &format!("\n\"{folder}someone\"\n")), expected);
        }
    }

    #[test]
    fn paths_that_only_look_like_them_are_free() {
        let (home, root) = (HOMES.first().unwrap(), HOMES.get(2).unwrap());
        for text in
            [format!("a{home}b"), format!("example.com{home}"), format!("${{X}}{root}y"), "/srv".into()]
        {
            assert_eq!(found("docs/a.md", &text), [], "{text}");
        }
    }
}
