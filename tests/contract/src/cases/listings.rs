//! Listings: hints, but complete once nothing moves (Rule 3).

use std::collections::BTreeSet;

use chrono::TimeDelta;
use domain::provisioning_run::RunCommand;
use domain::{Aggregate, EnvironmentSlot, Kind, ProvisioningRun};
use events::{EnvironmentId, TenantId};
use ports::{By, Commit, Page};

use super::{Database, until};
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    a_tenant_finds_its_own_page_by_page,
    an_environment_finds_its_own,
    what_has_ended_lives_no_more,
    what_is_due_is_found_and_nothing_else,
    a_page_that_is_just_full_ends,
    a_row_that_moved_is_found_where_it_is_now,
    hostile_names_find_only_themselves,
}

async fn runs(db: &Database, tenant: &str, environment: &str, numbers: std::ops::Range<u32>) {
    for n in numbers {
        let due = Sample::now() + TimeDelta::minutes(i64::from(n));
        db.written(Commit::of(Sample::run(tenant, environment, n, due), &db.sample.cx())).await;
    }
}

/// All pages of a size, checked to be disjoint, and to be in order where that is promised.
async fn pages<A: Aggregate>(db: &Database, by: By<'_>, limit: u32) -> Vec<String> {
    let mut keys: Vec<String> = vec![];
    let mut after = None;
    loop {
        let listing = db.rows.find(A::KIND, by, Page { limit, after }).await.unwrap();
        assert!(u32::try_from(listing.rows.len()).unwrap() <= limit);
        keys.extend(listing.rows.into_iter().map(|r| r.key.text));
        match listing.next {
            None => break,
            Some(next) => after = Some(next),
        }
    }
    let ordered = !matches!(by, By::All | By::Due(_));
    assert!(!ordered || keys.windows(2).all(|w| w[0] < w[1]), "{keys:?}");
    let distinct: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:?}");
    keys
}

async fn counts<A: Aggregate>(db: &Database, by: By<'_>, limit: u32, expected: usize) {
    until("the index", || async { pages::<A>(db, by, limit).await.len() == expected }).await;
}

async fn a_tenant_finds_its_own_page_by_page(db: Database) {
    runs(&db, "acme", "e1", 0..23).await;
    runs(&db, "other", "e1", 50..55).await;
    for limit in [1, 7, 23, 100] {
        counts::<ProvisioningRun>(&db, By::Tenant(&Sample::tenant("acme")), limit, 23).await;
    }
    counts::<ProvisioningRun>(&db, By::All, 10, 28).await;
    counts::<ProvisioningRun>(&db, By::Tenant(&Sample::tenant("nobody")), 10, 0).await;
    counts::<EnvironmentSlot>(&db, By::Tenant(&Sample::tenant("acme")), 10, 0).await;
    let all = db.store().find_all::<ProvisioningRun>(By::Tenant(&Sample::tenant("acme"))).await.unwrap();
    let ids: BTreeSet<_> = all.iter().map(|r| r.id).collect();
    assert_eq!((all.len(), ids.len()), (23, 23));
}

async fn an_environment_finds_its_own(db: Database) {
    runs(&db, "acme", "e1", 0..4).await;
    runs(&db, "acme", "e2", 10..13).await;
    runs(&db, "other", "e1", 20..22).await;
    let (tenant, environment) = (Sample::tenant("acme"), EnvironmentId::new("e1").unwrap());
    counts::<ProvisioningRun>(&db, By::Environment(&tenant, &environment), 3, 4).await;
}

async fn what_has_ended_lives_no_more(db: Database) {
    runs(&db, "acme", "e1", 0..4).await;
    runs(&db, "acme", "e2", 10..12).await;
    runs(&db, "other", "e1", 20..22).await;
    let (tenant, environment) = (Sample::tenant("acme"), EnvironmentId::new("e1").unwrap());
    let living = By::Living(&tenant, &environment);
    counts::<ProvisioningRun>(&db, living, 3, 4).await;
    let all = db.store().find_all::<ProvisioningRun>(living).await.unwrap();
    let run = db.store().need::<ProvisioningRun>(&all[0].id()).await.unwrap();
    let by = events::Principal::new("ben").unwrap();
    let cancel = RunCommand::Cancel { by, reason: "enough".to_owned() };
    db.written(Commit::of(run.decide(cancel, Sample::now()).unwrap(), &db.sample.cx())).await;
    counts::<ProvisioningRun>(&db, living, 3, 3).await;
    counts::<ProvisioningRun>(&db, By::Environment(&tenant, &environment), 3, 4).await;
}

async fn what_is_due_is_found_and_nothing_else(db: Database) {
    runs(&db, "acme", "e1", 0..5).await;
    runs(&db, "other", "e2", 5..10).await;
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    for (minutes, expected) in [(-1, 0), (0, 1), (6, 7), (100, 10)] {
        counts::<ProvisioningRun>(&db, By::Due(Sample::now() + TimeDelta::minutes(minutes)), 4, expected)
            .await;
    }
    counts::<EnvironmentSlot>(&db, By::Due(Sample::now() + TimeDelta::days(9)), 4, 0).await;
}

async fn a_page_that_is_just_full_ends(db: Database) {
    runs(&db, "acme", "e1", 0..6).await;
    counts::<ProvisioningRun>(&db, By::All, 6, 6).await;
    counts::<ProvisioningRun>(&db, By::All, 3, 6).await;
    assert_eq!(Kind::ALL.len(), 12);
    for kind in Kind::ALL.into_iter().filter(|k| *k != Kind::ProvisioningRun) {
        assert!(db.rows.find(kind, By::All, Page::default()).await.unwrap().rows.is_empty());
    }
}

async fn a_row_that_moved_is_found_where_it_is_now(db: Database) {
    runs(&db, "acme", "e1", 0..1).await;
    let found = db.store().find_all::<ProvisioningRun>(By::All).await.unwrap();
    let run = db.store().need::<ProvisioningRun>(&found[0].id()).await.unwrap();
    let later = Sample::now() + TimeDelta::hours(1);
    let change = run.decide(RunCommand::LookAgain { due: later }, Sample::now()).unwrap();
    db.written(Commit::of(change, &db.sample.cx())).await;
    counts::<ProvisioningRun>(&db, By::Due(Sample::now()), 10, 0).await;
    counts::<ProvisioningRun>(&db, By::Due(later), 10, 1).await;
}

async fn hostile_names_find_only_themselves(db: Database) {
    let names = ["%", "_", "' OR 1=1 --", "a\"b", "a/b", "a%2Fb", "A", "a", "é", "..", "🚀", "\\", "a b"];
    for name in names {
        db.written(Commit::of(Sample::slot(name, name), &db.sample.cx())).await;
    }
    for name in names {
        let (tenant, environment) = (TenantId::new(name).unwrap(), EnvironmentId::new(name).unwrap());
        counts::<EnvironmentSlot>(&db, By::Tenant(&tenant), 5, 1).await;
        counts::<EnvironmentSlot>(&db, By::Environment(&tenant, &environment), 5, 1).await;
    }
    counts::<EnvironmentSlot>(&db, By::All, 4, names.len()).await;
}
