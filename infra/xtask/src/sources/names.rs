//! Module names that say nothing about what is inside, so that anything may end up there.

use syn::{File, Item};

use super::{Findings, Source};
use crate::problem::Problem;

const REFUSED: &[&str] = &["util", "common", "helpers", "types", "values"];
const TO_DO: &str = "name it after what is in it";

pub(super) fn check(source: &Source, parsed: &File, findings: &mut Findings) {
    let stem = source.path.with_extension("");
    let named = stem.iter().filter_map(|part| part.to_str()).find(|part| REFUSED.contains(part));
    if let Some(name) = named {
        findings.problems.push(Problem::new(&source.path, 1, format!("a module called {name}"), TO_DO));
    }
    inner(source, &parsed.items, findings);
}

/// Modules that are written inside of others.
fn inner(source: &Source, items: &[Item], findings: &mut Findings) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let Some((_, items)) = &module.content else { continue };
        let name = module.ident.to_string();
        if REFUSED.contains(&name.as_str()) {
            let line = module.ident.span().start().line;
            findings.problems.push(Problem::new(
                &source.path,
                line,
                format!("a module called {name}"),
                TO_DO,
            ));
        }
        inner(source, items, findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.into(), text: text.into() };
        let mut findings = Findings::default();
        check(&source, &syn::parse_file(text).unwrap(), &mut findings);
        findings.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_folders_and_inner_modules_are_refused_once_and_at_their_line() {
        let to_do = "name it after what is in it";
        assert_eq!(found("a/src/util.rs", ""), [format!("a/src/util.rs:1: a module called util; {to_do}")]);
        assert_eq!(
            found("a/tests/common/mod.rs", ""),
            [format!("a/tests/common/mod.rs:1: a module called common; {to_do}")]
        );
        assert_eq!(
            found("a/src/b.rs", "mod c {\n    mod helpers {}\n}"),
            [format!("a/src/b.rs:2: a module called helpers; {to_do}")]
        );
    }

    #[test]
    fn telling_names_are_free() {
        assert_eq!(found("a/src/kinds.rs", "mod tests { mod utility {} }"), Vec::<String>::new());
        // The line is told where the module's file is.
        assert_eq!(found("a/src/lib.rs", "mod values;"), Vec::<String>::new());
    }
}
