//! `lib.rs` and `mod.rs` are tables of contents: they list modules and what is seen of them, and hold no code.

use proc_macro2::Span;
use syn::{File, Item, Visibility};

use super::{Findings, Source};
use crate::problem::Problem;

pub(super) fn check(source: &Source, parsed: &File, findings: &mut Findings) {
    if !source.path.file_name().is_some_and(|name| name == "lib.rs" || name == "mod.rs") {
        return;
    }
    for item in &parsed.items {
        let Some((what, span)) = held(item) else { continue };
        let what = format!("{what} in a file that only lists");
        let to_do = "move it into a module named after what it is about";
        findings.problems.push(Problem::new(&source.path, span.start().line, what, to_do));
    }
}

/// What an item holds beyond listing.
fn held(item: &Item) -> Option<(&'static str, Span)> {
    let (what, span) = match item {
        Item::Mod(module) if module.content.is_none() => return None,
        // An import for nobody else would only serve code.
        Item::Use(uses) if matches!(uses.vis, Visibility::Inherited) => {
            ("a private import", uses.use_token.span)
        }
        Item::Use(_) | Item::ExternCrate(_) => return None,
        Item::Mod(module) => ("the body of a module", module.ident.span()),
        Item::Fn(function) => ("a function", function.sig.ident.span()),
        Item::Struct(structure) => ("a struct", structure.ident.span()),
        Item::Enum(enumeration) => ("an enum", enumeration.ident.span()),
        Item::Union(union) => ("a union", union.ident.span()),
        Item::Impl(implementation) => ("an impl", implementation.impl_token.span),
        Item::Trait(definition) => ("a trait", definition.ident.span()),
        Item::TraitAlias(alias) => ("a trait alias", alias.ident.span()),
        Item::Type(alias) => ("a type alias", alias.ident.span()),
        Item::Const(constant) => ("a constant", constant.ident.span()),
        Item::Static(constant) => ("a static", constant.ident.span()),
        Item::Macro(call) => {
            let path = call.mac.path.segments.first().map(|segment| segment.ident.span());
            ("a macro", path.unwrap_or_else(Span::call_site))
        }
        _ => ("code", Span::call_site()),
    };
    Some((what, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let source = Source { path: path.into(), text: text.into() };
        let mut findings = Findings::default();
        check(&source, &syn::parse_file(text).unwrap(), &mut findings);
        findings.problems.into_iter().map(|problem| (problem.line, problem.what)).collect()
    }

    const LIST: &str = "//! What it is.\n#![forbid(unsafe_code)]\n\n/// One.\n#[cfg(unix)]\npub mod one;\nmod two;\n\
                        pub use one::*;\npub(crate) use two::Two;\n";

    #[test]
    fn lists_are_free() {
        assert_eq!(found("a/src/lib.rs", LIST), []);
        assert_eq!(found("a/tests/b/mod.rs", LIST), []);
        assert_eq!(found("a/src/lib.rs", ""), []);
    }

    #[test]
    fn code_is_refused_at_its_line() {
        let text = "use std::fs;\n\n/// S.\n#[derive(Debug)]\npub struct S;\nimpl S {\n    fn f() {}\n}\n\
                    const fn g() {}\nmod tests {}\nmacro_rules! m { () => {} }\nm!();\nconst C: u8 = 1;\n";
        let expected = [
            (1, "a private import"),
            (5, "a struct"),
            (6, "an impl"),
            (9, "a function"),
            (10, "the body of a module"),
            (11, "a macro"),
            (12, "a macro"),
            (13, "a constant"),
        ];
        let expected = expected.map(|(line, what)| (line, format!("{what} in a file that only lists")));
        assert_eq!(found("a/src/mod.rs", text), expected);
    }

    #[test]
    fn other_files_hold_code() {
        assert_eq!(found("a/src/main.rs", "fn main() {}"), []);
    }
}
