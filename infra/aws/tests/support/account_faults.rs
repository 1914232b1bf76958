//! What a person has to put right: the error says what it is, and what to do.

use contract::Sample;
use domain::EnvironmentSlot;
use events::Envelope;
use ports::queue::{Message, Queue};
use ports::{Artifacts, Bus, Commit, PortError, Receipts, Store};
use uuid::Uuid;

use super::Account;

fn event() -> Envelope {
    let event = serde_json::json!({"specversion": "1.0", "id": "1", "source": "/test", "type": "t", "data": {},
                                   "time": "2026-01-01T00:00:00Z"});
    serde_json::from_value(event).unwrap()
}

fn message() -> Message {
    Message {
        id: Uuid::from_u128(1),
        queue: "Planner".to_owned(),
        group: "g".to_owned(),
        body: b"{}".to_vec(),
        correlation: String::new(),
        trace: None,
    }
}

/// What each port says when it is asked for something.
async fn said(account: &Account) -> Vec<(&'static str, PortError)> {
    let store = Store::new(std::sync::Arc::new(account.rows()));
    let slot = Sample::slot_id("acme", "e1");
    let commit = Commit::of(Sample::slot("acme", "e1"), &Sample::cx_of(1));
    let wide = Commit::of(Sample::slot("acme", "e2"), &Sample::cx_of(2)).and(Sample::slot("acme", "e3"));
    let fault = |e: ports::commit::CommitError| match e {
        ports::commit::CommitError::NotApplied(e) => e,
        e => panic!("nobody knows: {e:?}"),
    };
    vec![
        ("table", store.load::<EnvironmentSlot>(&slot).await.map(|_| ()).unwrap_err()),
        ("table", fault(store.commit(commit).await.map(|_| ()).unwrap_err())),
        ("table", fault(store.commit(wide).await.map(|_| ()).unwrap_err())),
        ("bucket", account.receipts().get("runs/a").await.map(|_| ()).unwrap_err()),
        ("bucket", account.receipts().put_once("runs/a", b"a").await.map(|_| ()).unwrap_err()),
        ("bucket", account.artifacts().put(b"a").await.map(|_| ()).unwrap_err()),
        ("queue", account.queue().send(&message()).await.unwrap_err()),
    ]
}

/// Nothing is there: each error names what is missing and the variable that names it.
pub async fn what_is_missing_is_named(account: &Account) {
    for (what, error) in said(account).await {
        let text = error.chain();
        let variable = match what {
            "table" => "RUNTIME_CLOUD_TABLES",
            "bucket" => "_BUCKET",
            _ => "RUNTIME_CLOUD_QUEUES",
        };
        assert!(text.contains(&account.prefix()), "{what}: {text}");
        assert!(text.contains("does not exist") && text.contains(variable), "{what}: {text}");
    }
}

/// The credentials have expired: each error says so and what to do, and what waits is tried again.
pub async fn expired_credentials_are_said(account: &Account) {
    let mut all = said(account).await;
    // A bus that isn't there takes what it is sent, on AWS too.
    all.push(("bus", account.bus().publish(&event()).await.unwrap_err()));
    for (what, error) in all {
        let text = error.chain();
        assert!(text.contains("expired") && text.contains("sign in again"), "{what}: {text}");
        assert!(error.is_temporary(), "{what}: {text}");
    }
}
