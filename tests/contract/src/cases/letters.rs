//! Letters ride on puts (Rule 6).

use domain::aggregate::{Address, Aggregate};
use domain::{DeploymentSpecification, EnvironmentSlot};
use ports::Commit;
use ports::commit::{Destination, LetterBody};
use uuid::Uuid;

use super::Database;
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    an_event_has_the_id_of_its_carrier_version_and_index,
    events_and_messages_leave_in_their_order,
    a_put_without_letters_emits_nothing,
    a_commit_that_is_refused_emits_nothing,
    what_has_left_is_gone,
    a_parked_letter_lets_the_others_go,
    a_message_stays_what_it_was,
}

/// As the specification of letters says, and not as the code does.
fn id(carrier: &str, version: u64, index: usize) -> Uuid {
    let namespace = domain::deployment_specification::NAMESPACE;
    Uuid::new_v5(&namespace, format!("letter/{carrier}/{version}/{index}").as_bytes())
}

fn wake(group: &str) -> Destination {
    Destination {
        queue: "Planner",
        group: group.to_owned(),
        body: br#"{"b":[1,2.5,null],"a":"\u00e9\"\\"}"#.to_vec(),
    }
}

async fn an_event_has_the_id_of_its_carrier_version_and_index(db: Database) {
    let change = Sample::specification("acme", "e/1");
    let specification = change.after().id;
    db.written(Commit::of(change, &Sample::cx_of(5)).queue(wake("g"))).await;
    let letters = db.letters.pending(10).await.unwrap();
    let carrier = format!("DeploymentSpecifications/acme/{specification}/1");
    assert_eq!(letters.len(), 2);
    for (index, letter) in letters.iter().enumerate() {
        assert_eq!(letter.id, id(&carrier, 1, index));
    }
    let LetterBody::Event(envelope) = &letters[0].body else { panic!("{:?}", letters[0]) };
    assert_eq!(envelope.id, letters[0].id.to_string());
    assert_eq!(envelope.topic, "provisioning.specifications.v1.specification-declared");
    assert_eq!(envelope.source, "/runtime-cloud/IaCProvisioningService");
    assert_eq!(envelope.tenantid, Some(Sample::tenant("acme")));
    assert_eq!(envelope.correlationid.as_deref(), Some("work-5"));
    assert_eq!(envelope.causationid, Some(Sample::cx_of(5).message.to_string()));
    assert_eq!(envelope.trace(), Some(Sample::cx_of(5).span()));
}

async fn events_and_messages_leave_in_their_order(db: Database) {
    for environment in ["e1", "e2", "e3"] {
        db.written(
            Commit::of(Sample::specification("acme", environment), &db.sample.cx()).queue(wake(environment)),
        )
        .await;
    }
    let letters = db.letters.pending(5).await.unwrap();
    let order: Vec<&str> = letters
        .iter()
        .map(|letter| match &letter.body {
            LetterBody::Event(envelope) => envelope.data["environmentId"].as_str().unwrap(),
            LetterBody::Message { group, .. } => group,
        })
        .collect();
    assert_eq!(order, ["e1", "e1", "e2", "e2", "e3"]);
}

async fn a_put_without_letters_emits_nothing(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let slot = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap();
    let step = slot.decide(Sample::step(), Sample::now()).unwrap();
    db.written(Commit::of(step, &db.sample.cx()).set_limit("pool", "cpu", None, 1)).await;
    assert!(db.letters.pending(10).await.unwrap().is_empty());
}

async fn a_commit_that_is_refused_emits_nothing(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let fails =
        Commit::of(Sample::specification("acme", "e1"), &db.sample.cx()).and(Sample::slot("acme", "e1"));
    assert_eq!(db.refused(fails.queue(wake("g"))).await.len(), 1);
    assert!(db.letters.pending(10).await.unwrap().is_empty());
    let key = Sample::specification("acme", "e1").after().id().key(DeploymentSpecification::KIND);
    assert!(db.bare.get(&key).await.unwrap().is_none());
}

async fn what_has_left_is_gone(db: Database) {
    for environment in ["e1", "e2"] {
        db.written(Commit::of(Sample::slot("acme", environment), &db.sample.cx()).queue(wake(environment)))
            .await;
    }
    let letters = db.letters.pending(10).await.unwrap();
    db.letters.sent(&[letters[0].id]).await.unwrap();
    db.letters.sent(&[letters[0].id]).await.unwrap();
    let left = db.letters.pending(10).await.unwrap();
    assert_eq!(left, letters[1..]);
}

// Rule 7: a bad one is put aside and the ones behind it go on.
async fn a_parked_letter_lets_the_others_go(db: Database) {
    for environment in ["e1", "e2"] {
        db.written(Commit::of(Sample::slot("acme", environment), &db.sample.cx()).queue(wake(environment)))
            .await;
    }
    let letters = db.letters.pending(10).await.unwrap();
    db.letters.park(letters[0].id, "nobody reads that queue").await.unwrap();
    assert_eq!(db.letters.pending(1).await.unwrap(), letters[1..]);
}

async fn a_message_stays_what_it_was(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &Sample::cx_of(9)).queue(wake("g/é"))).await;
    let letters = db.letters.pending(10).await.unwrap();
    let LetterBody::Message { queue, group, body, correlation, trace } = &letters[0].body else {
        panic!("{letters:?}")
    };
    assert_eq!((queue.as_str(), group.as_str(), correlation.as_str()), ("Planner", "g/é", "work-9"));
    assert_eq!(*trace, Some(Sample::cx_of(9).span()));
    let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    assert_eq!(json(body), json(&wake("g").body));
}
