//! DeploymentSpecification: one test for each invariant of the specification, and what a declaration may be.

use domain::deployment_specification::{Declaration, DeploymentSpecification, SpecificationRefusal};
use domain::{Aggregate, Refusal};
use events::{
    CommitHash, ConfigRef, EnvironmentId, Event, ProjectId, SecretRef, SpecificationKind, TenantId,
};

use crate::sample::{after, now, program, release};

fn declaration() -> Declaration {
    Declaration {
        tenant: TenantId::new("acme").unwrap(),
        project: ProjectId::new("shop").unwrap(),
        environment: EnvironmentId::new("e1").unwrap(),
        kind: SpecificationKind::Workload,
        program: program(),
        release: Some(release()),
        strategy: Some("rolling".to_owned()),
        config_refs: vec![config("shop:host", "db/host")],
        secret_refs: vec![secret("shop:password", "db/password")],
    }
}

fn config(key: &str, reference: &str) -> ConfigRef {
    ConfigRef { key: key.to_owned(), reference: reference.to_owned() }
}

fn secret(key: &str, reference: &str) -> SecretRef {
    SecretRef { key: key.to_owned(), reference: reference.to_owned() }
}

fn declared(declaration: Declaration) -> DeploymentSpecification {
    DeploymentSpecification::declare(declaration, now()).unwrap().after().clone()
}

fn refused(declaration: Declaration) -> SpecificationRefusal {
    let refusal = DeploymentSpecification::declare(declaration, now()).unwrap_err();
    assert!(refusal.to_string().contains(';') && refusal.code().starts_with("specification-"), "{refusal}");
    refusal
}

#[test]
fn desired_state_lives_in_git_and_the_specification_records_which_version_was_acted_on() {
    let change = DeploymentSpecification::declare(declaration(), now()).unwrap();
    let first = change.after();
    assert_eq!((first.version, &first.declaration.program), (1, &program()));
    let [Event::SpecificationDeclared(event)] = change.events() else { panic!("{:?}", change.events()) };
    assert_eq!((event.version, &event.program_version), (1, &program().commit));
    // Another commit is another version, and the one before stays what it was.
    let mut moved = declaration();
    moved.program.commit = CommitHash::new("b".repeat(40)).unwrap();
    let next = first.declare_next(moved, after(1)).unwrap().unwrap();
    assert_eq!((next.after().version, next.after().id), (2, first.id));
    assert_eq!(next.before(), None, "a version is a row of its own: nothing is written over");
    assert_ne!(next.after().id(), first.id());
    assert_eq!(first.declaration.program, program());
    // What moves names no version.
    for moving in ["main", "v1.2", "HEAD", "abc1234", &"g".repeat(40)] {
        assert!(CommitHash::new(moving).is_err(), "{moving}");
    }
}

#[test]
fn secrets_and_configuration_are_references() {
    let change = DeploymentSpecification::declare(declaration(), now()).unwrap();
    let state = serde_json::to_value(change.after()).unwrap();
    for refs in ["config_refs", "secret_refs"] {
        for one in state["declaration"][refs].as_array().unwrap() {
            let fields: Vec<&String> = one.as_object().unwrap().keys().collect();
            assert_eq!(fields, ["key", "ref"], "{refs} hold more than references");
        }
    }
    // A value in the place of a reference is taken for a name and never leaves with the event.
    let event = change.events()[0].data().unwrap();
    assert!(event.get("configRefs").is_none() && event.get("secretRefs").is_none());
    for without in [
        Declaration { secret_refs: vec![secret("k", " ")], ..declaration() },
        Declaration { config_refs: vec![config("k", "")], ..declaration() },
    ] {
        assert!(matches!(refused(without), SpecificationRefusal::Empty { .. }));
    }
}

#[test]
fn the_same_declaration_is_the_same_version() {
    let first = declared(declaration());
    assert!(first.declare_next(declaration(), after(9)).unwrap().is_none());
    assert_eq!(declared(declaration()).id(), first.id());
}

#[test]
fn whatever_differs_is_the_next_version() {
    let first = declared(declaration());
    let mut others = vec![
        Declaration { release: None, ..declaration() },
        Declaration { strategy: None, ..declaration() },
        Declaration { config_refs: vec![], ..declaration() },
        Declaration { secret_refs: vec![secret("shop:password", "db/other")], ..declaration() },
    ];
    let mut commit = declaration();
    commit.program.commit = CommitHash::new("c".repeat(40)).unwrap();
    others.push(commit);
    for other in others {
        let next = first.declare_next(other.clone(), after(1)).unwrap().expect("it is the same version");
        assert_eq!((next.after().version, next.after().id, &next.after().declaration), (2, first.id, &other));
        assert_eq!(next.events().len(), 1);
    }
}

#[test]
fn another_program_place_or_tenant_is_another_specification() {
    let first = declared(declaration());
    let mut others = vec![
        Declaration { tenant: TenantId::new("other").unwrap(), ..declaration() },
        Declaration { environment: EnvironmentId::new("e2").unwrap(), ..declaration() },
        Declaration { kind: SpecificationKind::EnvironmentBaseline, ..declaration() },
    ];
    for (repository, path) in
        [("https://git.example/other.git", "deploy"), ("https://git.example/shop.git", "other")]
    {
        let mut other = declaration();
        repository.clone_into(&mut other.program.repository);
        path.clone_into(&mut other.program.path);
        others.push(other);
    }
    let mut ids = vec![first.id];
    for other in others {
        let id = other.specification_id();
        assert!(!ids.contains(&id), "{other:?}");
        ids.push(id);
        let refusal = first.declare_next(other, after(1)).unwrap_err();
        assert_eq!(refusal.code(), "specification-other");
    }
}

#[test]
fn parts_of_an_id_do_not_run_into_each_other() {
    let id = |tenant: &str, environment: &str, repository: &str, path: &str| {
        let mut other = declaration();
        other.tenant = TenantId::new(tenant).unwrap();
        other.environment = EnvironmentId::new(environment).unwrap();
        repository.clone_into(&mut other.program.repository);
        path.clone_into(&mut other.program.path);
        other.specification_id()
    };
    assert_ne!(id("a", "b/c", "r", "p"), id("a/b", "c", "r", "p"));
    assert_ne!(id("a", "b", "r/p", "q"), id("a", "b", "r", "p/q"));
    assert_ne!(id("a", "b%2Fc", "r", "p"), id("a", "b/c", "r", "p"));
}

#[test]
fn reserved_duplicate_and_empty_keys_are_refused() {
    for reserved in ["runtimecloud:environment", "runtimecloud:"] {
        let config = Declaration { config_refs: vec![config(reserved, "x")], ..declaration() };
        assert_eq!(refused(config), SpecificationRefusal::ReservedKey { key: reserved.to_owned() });
        let secret = Declaration { secret_refs: vec![secret(reserved, "x")], ..declaration() };
        assert_eq!(refused(secret), SpecificationRefusal::ReservedKey { key: reserved.to_owned() });
    }
    let twice = Declaration { config_refs: vec![config("a", "x"), config("a", "y")], ..declaration() };
    assert_eq!(refused(twice).code(), "specification-duplicate-key");
    // Also where one is plain and the other secret: which one the program reads would be open.
    let both = Declaration {
        config_refs: vec![config("a", "x")],
        secret_refs: vec![secret("a", "x")],
        ..declaration()
    };
    assert_eq!(refused(both).code(), "specification-duplicate-key");
    let empty = Declaration { config_refs: vec![config(" ", "x")], ..declaration() };
    assert_eq!(refused(empty).code(), "specification-empty-field");
    let mut nowhere = declaration();
    nowhere.program.repository = "  ".to_owned();
    assert_eq!(refused(nowhere), SpecificationRefusal::Empty { field: "program.repository" });
    // The next version is held to the same.
    let again = declared(declaration()).declare_next(
        Declaration { config_refs: vec![config("runtimecloud:x", "x")], ..declaration() },
        after(1),
    );
    assert_eq!(again.unwrap_err().code(), "specification-reserved-key");
}

#[test]
fn a_declaration_that_no_run_could_carry_is_refused() {
    let mut long = declaration();
    long.program.path = "a/".repeat(3000);
    assert!(matches!(refused(long), SpecificationRefusal::TooLarge { field: "program.path", .. }));
    let mut many = declaration();
    many.config_refs = (0..5000).map(|n| config(&format!("key{n}"), "a/b")).collect();
    assert!(matches!(refused(many), SpecificationRefusal::TooLarge { field: "configRefs", .. }));
}

#[test]
fn what_no_log_shows_as_it_is_is_refused_by_field() {
    let odd = "a\u{202E}b";
    let mut strategy = declaration();
    strategy.strategy = Some(odd.to_owned());
    let mut repository = declaration();
    repository.program.repository = "/r\n".to_owned();
    let mut key = declaration();
    key.config_refs = vec![config(odd, "x")];
    let mut reference = declaration();
    reference.secret_refs = vec![secret("x", "a\u{9b}b")];
    for (field, declaration) in
        [("strategy", strategy), ("program.repository", repository), ("key", key), ("ref", reference)]
    {
        let refusal = refused(declaration);
        assert_eq!(refusal.code(), "specification-unshowable");
        assert!(refusal.to_string().starts_with(field), "{refusal}");
    }
}
