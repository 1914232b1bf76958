use std::fs;

use runtime_cloud_policies::{CedarPolicies, PolicyError};

use crate::with;

fn refused(text: &str) -> PolicyError {
    with(text).err().expect("it must be refused")
}

#[test]
fn the_default_set_is_named() {
    let names = CedarPolicies::load(None).unwrap().names();
    assert!(names.contains("apply-outside-production") && names.len() >= 10, "{names:?}");
}

#[test]
fn a_syntax_error_names_file_and_line() {
    let error = refused("@id(\"a\")\npermit (principal, action, resource);\n\npermit (oops\n").to_string();
    assert!(error.contains("more.cedar:4:") && error.contains("correct it"), "{error}");
}

#[test]
fn what_the_schema_does_not_know_is_refused() {
    for (text, line) in [
        (
            "@id(\"a\") permit (principal, action == Action::\"apply-manual\", resource)\nwhen { context.size > 1 };",
            2,
        ),
        ("\n@id(\"a\") permit (principal, action == Action::\"aply\", resource);", 2),
        ("@id(\"a\") permit (principal is Userr, action, resource);", 1),
        (
            "@id(\"a\") permit (principal, action in Action::\"apply\", resource)\nwhen { context.adds > \"1\" };",
            2,
        ),
        (
            "@id(\"a\") permit (principal, action == Action::\"apply-manual\", resource)\nwhen {\n  resource.class == Class::\"prod\" };",
            3,
        ),
        ("@id(\"a\") permit (principal in Role::\"boss\", action, resource);", 1),
    ] {
        let error = refused(text);
        let PolicyError::Invalid { line: at, .. } = &error else { panic!("{text}: {error}") };
        assert_eq!(*at, line, "{text}: {error}");
        let error = error.to_string();
        assert!(
            error.contains("more.cedar") && error.contains("\"a\"") && error.contains("schema"),
            "{error}"
        );
    }
}

#[test]
fn a_policy_that_can_never_apply_is_refused() {
    let text = "@id(\"a\") permit (principal is Service, action == Action::\"publish\", resource)
                when { principal in Role::\"admin\" };";
    assert!(matches!(refused(text), PolicyError::Invalid { .. }));
}

#[test]
fn a_policy_without_a_name_of_its_own_is_refused() {
    let error = refused("// one\n\npermit (principal, action, resource);");
    assert!(matches!(error, PolicyError::Unnamed { line: 3, .. }), "{error}");
    let error = refused("@id(\"  \") permit (principal, action, resource);");
    assert!(matches!(error, PolicyError::Unnamed { line: 1, .. }), "{error}");
    let twice =
        "@id(\"x\") forbid (principal, action, resource);\n@id(\"x\") permit (principal, action, resource);";
    assert!(matches!(refused(twice), PolicyError::Duplicate { line: 2, .. }));
    let default = "@id(\"apply-outside-production\") permit (principal, action, resource);";
    let error = refused(default).to_string();
    assert!(error.contains("default.cedar") && error.contains("rename"), "{error}");
}

#[test]
fn a_template_is_refused() {
    let error = refused("@id(\"t\") permit (principal == ?principal, action, resource);");
    assert!(matches!(error, PolicyError::Template { .. }), "{error}");
}

#[test]
fn only_cedar_files_of_a_folder_that_is_there_are_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.txt"), "not Cedar").unwrap();
    fs::write(folder.path().join("b.cedar"), "@id(\"b\") forbid (principal, action, resource);").unwrap();
    let names = CedarPolicies::load(Some(folder.path())).unwrap().names();
    assert!(names.contains("b"));
    let error = CedarPolicies::load(Some(&folder.path().join("gone"))).err().expect("it must be refused");
    assert!(error.to_string().contains("gone") && error.to_string().contains("correct the path"), "{error}");
}
