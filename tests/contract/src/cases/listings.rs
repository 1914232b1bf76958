//! Listings: hints, but complete once nothing moves (Rule 3).

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use domain::aggregate::{Address, Scoped};
use domain::provisioning_run::RunCommand;
use domain::{Aggregate, EnvironmentSlot, Kind, ProvisioningRun};
use events::{EnvironmentId, TenantId};
use ports::{Behind, By, Commit, Page};

use super::{Database, until};
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    a_tenant_finds_its_own_page_by_page,
    the_newest_come_first_page_by_page,
    the_newest_behind_one_follow_it,
    the_beginning_of_an_id_finds_its_own,
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
    let ordered = !matches!(by, By::All | By::Due(_) | By::Newest(..));
    assert!(!ordered || keys.windows(2).all(|w| w[0] < w[1]), "{keys:?}");
    let distinct: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:?}");
    keys
}

async fn counts<A: Aggregate>(db: &Database, by: By<'_>, limit: u32, expected: usize) {
    until("the index", || async { pages::<A>(db, by, limit).await.len() == expected }).await;
}

async fn lists<A: Aggregate>(db: &Database, by: By<'_>, limit: u32, expected: &[String]) {
    until("the index", || async { pages::<A>(db, by, limit).await == expected }).await;
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

/// When the run of a number begins: not in the order of the numbers, and sometimes two at once.
fn begins(number: u32) -> DateTime<Utc> {
    Sample::now() + TimeDelta::milliseconds(i64::from(number * 7 % 5))
}

async fn begun(db: &Database, tenant: &str, environment: &str, numbers: std::ops::Range<u32>) {
    for n in numbers {
        let run = Sample::run_begun(tenant, environment, n, begins(n));
        db.written(Commit::of(run, &db.sample.cx())).await;
    }
}

/// The keys of runs, as they must be listed.
fn newest_first(tenant: &str, numbers: impl Iterator<Item = u32>) -> Vec<String> {
    let key = |n| Scoped::new(Sample::tenant(tenant), Sample::run_id(n)).key(Kind::ProvisioningRun).text;
    let mut runs: Vec<_> = numbers.map(|n| (begins(n), key(n))).collect();
    runs.sort();
    runs.into_iter().rev().map(|(_, key)| key).collect()
}

async fn the_newest_come_first_page_by_page(db: Database) {
    begun(&db, "acme", "e1", 0..12).await;
    begun(&db, "acme", "e2", 20..23).await;
    begun(&db, "other", "e1", 30..32).await;
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let (tenant, environment) = (Sample::tenant("acme"), EnvironmentId::new("e1").unwrap());
    for limit in [1, 4, 12, 100] {
        let all = By::Newest(&tenant, None, Behind::Nothing);
        lists::<ProvisioningRun>(&db, all, limit, &newest_first("acme", (0..12).chain(20..23))).await;
        let one = By::Newest(&tenant, Some(&environment), Behind::Nothing);
        lists::<ProvisioningRun>(&db, one, limit, &newest_first("acme", 0..12)).await;
    }
    // What has no such time is in no such list.
    lists::<EnvironmentSlot>(&db, By::Newest(&tenant, None, Behind::Nothing), 5, &[]).await;
}

async fn the_newest_behind_one_follow_it(db: Database) {
    begun(&db, "acme", "e1", 0..8).await;
    begun(&db, "acme", "e2", 8..11).await;
    begun(&db, "other", "e1", 20..22).await;
    let (tenant, environment) = (Sample::tenant("acme"), EnvironmentId::new("e1").unwrap());
    for (of, numbers) in [(None, 0..11), (Some(&environment), 0..8)] {
        let all = newest_first("acme", numbers.clone());
        for number in numbers {
            let key = Scoped::new(tenant.clone(), Sample::run_id(number)).key(Kind::ProvisioningRun);
            let place = all.iter().position(|k| *k == key.text).unwrap();
            let by = By::Newest(&tenant, of, Behind::This(begins(number), &key));
            lists::<ProvisioningRun>(&db, by, 3, &all[place + 1..]).await;
        }
    }
}

async fn the_beginning_of_an_id_finds_its_own(db: Database) {
    runs(&db, "acme", "e1", 0..20).await;
    runs(&db, "other", "e1", 40..50).await;
    let tenant = Sample::tenant("acme");
    let beginning = |id: &str| Scoped::new(tenant.clone(), id.to_owned()).key(Kind::ProvisioningRun);
    let whole = Sample::run_id(16).to_string();
    // Its id ends in 11, as hexadecimal; of those that end in 1_ there are 10 to 14.
    for (id, expected) in [(&whole[..35], 5), (&whole[..], 1), (&whole[..8], 20), ("f", 0), ("%", 0)] {
        counts::<ProvisioningRun>(&db, By::Beginning(&tenant, &beginning(id)), 4, expected).await;
    }
    let other = Sample::tenant("other");
    counts::<ProvisioningRun>(&db, By::Beginning(&other, &beginning(&whole[..8])), 4, 0).await;
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
    let all = By::Newest(&tenant, Some(&environment), Behind::Nothing);
    counts::<ProvisioningRun>(&db, all, 3, 4).await;
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
        let key = Scoped::new(tenant.clone(), environment.clone()).key(Kind::EnvironmentSlot);
        counts::<EnvironmentSlot>(&db, By::Beginning(&tenant, &key), 5, 1).await;
    }
    counts::<EnvironmentSlot>(&db, By::All, 4, names.len()).await;
}
