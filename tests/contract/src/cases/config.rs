//! Configuration values, versioned.

use std::sync::Arc;

use events::TenantId;
use futures::future::BoxFuture;
use ports::ConfigPlatform;

use crate::sample::Sample;

/// Sets a value of a tenant.
pub type Set = Arc<dyn Fn(TenantId, String, String) -> BoxFuture<'static, ()> + Send + Sync>;

/// Fresh values.
#[derive(Clone)]
pub struct Subject {
    /// The port.
    pub config: Arc<dyn ConfigPlatform>,
    /// Sets a value.
    pub set: Set,
}

crate::case::table! {
    /// Each with fresh values.
    Subject:
    a_reference_that_names_nothing_is_none,
    a_version_changes_exactly_when_the_value_does,
    tenants_do_not_see_each_other,
    strange_references_are_references,
}

async fn set(subject: &Subject, tenant: &str, reference: &str, value: &str) {
    (subject.set)(Sample::tenant(tenant), reference.to_owned(), value.to_owned()).await;
}

async fn get(subject: &Subject, tenant: &str, reference: &str) -> Option<(String, String)> {
    let found = subject.config.resolve(&Sample::tenant(tenant), reference).await.unwrap();
    found.map(|v| (v.version, v.value))
}

async fn a_reference_that_names_nothing_is_none(subject: Subject) {
    assert_eq!(get(&subject, "acme", "db/host").await, None);
}

async fn a_version_changes_exactly_when_the_value_does(subject: Subject) {
    let mut versions = vec![];
    for value in ["a", "a", "b", "a", "", ""] {
        set(&subject, "acme", "db/host", value).await;
        let (version, found) = get(&subject, "acme", "db/host").await.unwrap();
        assert_eq!(found, value);
        versions.push(version);
    }
    assert_eq!(versions[0], versions[1]);
    assert_ne!(versions[1], versions[2]);
    assert_ne!(versions[2], versions[3]);
    assert_ne!(versions[0], versions[3], "an old value again is a new version");
    assert_ne!(versions[3], versions[4]);
    assert_eq!(versions[4], versions[5]);
}

async fn tenants_do_not_see_each_other(subject: Subject) {
    set(&subject, "acme", "db/host", "a").await;
    assert_eq!(get(&subject, "other", "db/host").await, None);
    set(&subject, "other", "db/host", "o").await;
    assert_eq!(get(&subject, "acme", "db/host").await.unwrap().1, "a");
}

async fn strange_references_are_references(subject: Subject) {
    let references = ["a/b", "a%2Fb", "..", "' OR 1=1 --", "é", "%", "A", "a", "a b"];
    for reference in references {
        set(&subject, "acme", reference, reference).await;
    }
    for reference in references {
        assert_eq!(get(&subject, "acme", reference).await.unwrap().1, reference);
    }
}
