//! Secrets: versions that tell nothing, passphrases that are made once.

use std::collections::BTreeSet;
use std::sync::Arc;

use events::EnvironmentId;
use ports::SecretBroker;

use super::config::Set;
use crate::sample::Sample;

/// Fresh secrets.
#[derive(Clone)]
pub struct Subject {
    /// The port.
    pub secrets: Arc<dyn SecretBroker>,
    /// Sets a secret.
    pub set: Set,
}

crate::case::table! {
    /// Each with fresh secrets.
    Subject:
    a_reference_that_names_nothing_is_none,
    a_version_changes_exactly_when_the_value_does,
    a_version_tells_nothing_of_the_value,
    a_secret_is_not_printed,
    tenants_do_not_see_each_other,
    strange_references_are_references,
    a_reference_with_a_line_break_is_refused,
    a_passphrase_is_made_once,
    a_passphrase_that_was_lost_is_not_made_anew,
    each_environment_has_its_own_passphrase,
}

async fn set(subject: &Subject, tenant: &str, reference: &str, value: &str) {
    (subject.set)(Sample::tenant(tenant), reference.to_owned(), value.to_owned()).await;
}

async fn get(subject: &Subject, tenant: &str, reference: &str) -> Option<(String, String)> {
    let found = subject.secrets.resolve(&Sample::tenant(tenant), reference).await.unwrap();
    found.map(|s| (s.version, s.value.reveal().to_owned()))
}

async fn a_reference_that_names_nothing_is_none(subject: Subject) {
    assert_eq!(get(&subject, "acme", "db/password").await, None);
}

async fn a_version_changes_exactly_when_the_value_does(subject: Subject) {
    let mut versions = vec![];
    for value in ["one", "one", "two", "three"] {
        set(&subject, "acme", "db/password", value).await;
        let (version, found) = get(&subject, "acme", "db/password").await.unwrap();
        assert_eq!(found, value);
        versions.push(version);
    }
    assert_eq!(versions[0], versions[1]);
    assert_eq!(versions.into_iter().collect::<BTreeSet<_>>().len(), 3);
}

async fn a_version_tells_nothing_of_the_value(subject: Subject) {
    for value in ["a", "1234", "hunter2", "0123456789abcdef"] {
        set(&subject, "acme", "db/password", value).await;
        let (version, _) = get(&subject, "acme", "db/password").await.unwrap();
        assert!(!version.is_empty() && (value.len() < 4 || !version.contains(value)), "{version}");
        // A plain digest of the value could be looked up in a table.
        let digest = domain::Digest::of(value.as_bytes());
        assert!(!digest.as_str().contains(&version) && !version.contains(digest.short()), "{version}");
    }
}

async fn a_secret_is_not_printed(subject: Subject) {
    set(&subject, "acme", "db/password", "hunter2").await;
    let found = subject.secrets.resolve(&Sample::tenant("acme"), "db/password").await.unwrap();
    assert!(!format!("{found:?}").contains("hunter2"));
}

async fn tenants_do_not_see_each_other(subject: Subject) {
    set(&subject, "acme", "db/password", "a").await;
    assert_eq!(get(&subject, "other", "db/password").await, None);
    assert_eq!(get(&subject, "acme/db", "password").await, None);
}

async fn strange_references_are_references(subject: Subject) {
    let long = "é/".repeat(200);
    let references = ["a/b", "a%2Fb", "..", ".", "' OR 1=1 --", "é", "%", "A", "a", "a b", &long];
    for reference in references {
        set(&subject, "acme", reference, reference).await;
    }
    for reference in references {
        assert_eq!(get(&subject, "acme", reference).await.unwrap().1, reference);
    }
}

// A broker that speaks in lines would take the second one for a field of its own.
async fn a_reference_with_a_line_break_is_refused(subject: Subject) {
    for reference in ["a\ntenant=other", "a\rb", "a\0b"] {
        let answer = subject.secrets.resolve(&Sample::tenant("acme"), reference).await;
        assert!(answer.is_err_and(|e| !e.is_temporary()), "{reference:?}");
    }
}

async fn a_passphrase_is_made_once(subject: Subject) {
    let makers = (0..8).map(|_| {
        let secrets = Arc::clone(&subject.secrets);
        tokio::spawn(async move {
            let environment = EnvironmentId::new("e1").unwrap();
            secrets.passphrase(&Sample::tenant("acme"), &environment, true).await.unwrap().reveal().to_owned()
        })
    });
    let made: BTreeSet<String> =
        futures::future::join_all(makers).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(made.len(), 1);
    assert!(made.iter().all(|p| p.len() >= 32));
}

async fn a_passphrase_that_was_lost_is_not_made_anew(subject: Subject) {
    let (tenant, environment) = (Sample::tenant("acme"), EnvironmentId::new("e1").unwrap());
    for _ in 0..2 {
        let lost = subject.secrets.passphrase(&tenant, &environment, false).await.unwrap_err();
        assert!(!lost.is_temporary() && lost.to_string().contains("e1"), "{lost}");
    }
    let made = subject.secrets.passphrase(&tenant, &environment, true).await.unwrap();
    let again = subject.secrets.passphrase(&tenant, &environment, false).await.unwrap();
    assert_eq!(made.reveal(), again.reveal());
}

async fn each_environment_has_its_own_passphrase(subject: Subject) {
    let long = "é".repeat(50);
    let mut made = BTreeSet::new();
    let names = [
        ("acme", "e1"),
        ("acme", "e2"),
        ("other", "e1"),
        ("a/b", "c"),
        ("a", "b/c"),
        ("..", "."),
        (&long, &long),
    ];
    for _ in 0..2 {
        for (tenant, environment) in names {
            let environment = EnvironmentId::new(environment).unwrap();
            let passphrase =
                subject.secrets.passphrase(&Sample::tenant(tenant), &environment, true).await.unwrap();
            made.insert(passphrase.reveal().to_owned());
        }
    }
    assert_eq!(made.len(), names.len());
}
