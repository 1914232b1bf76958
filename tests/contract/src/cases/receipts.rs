//! Receipts: written once and never again (Rules 12, 15, 26).

use std::sync::Arc;

use domain::Digest;
use domain::receipt::{ChainLink, ReceiptKind};
use events::{EnvironmentId, ProvisioningRunId, TenantId};
use ports::receipts::{blob_key, chain_key, run_key};
use ports::{Put, Receipts};
use uuid::Uuid;

/// Fresh receipts.
pub type Subject = Arc<dyn Receipts>;

crate::case::table! {
    /// Each with fresh receipts.
    Subject:
    the_first_bytes_stand,
    nothing_is_read_where_nothing_was_written,
    one_of_many_writers_creates,
    many_writers_of_the_same_bytes_agree,
    strange_names_are_names,
    a_key_that_leaves_its_place_is_refused,
    empty_and_large_bytes_are_bytes,
}

/// Tries again as a worker whose message comes again.
async fn put(receipts: &Subject, key: &str, bytes: &[u8]) -> Put {
    for _ in 0..20 {
        match receipts.put_once(key, bytes).await {
            Ok(put) => return put,
            Err(e) if e.is_temporary() => {}
            Err(e) => panic!("{e}"),
        }
    }
    panic!("it was never written");
}

async fn the_first_bytes_stand(receipts: Subject) {
    let first = put(&receipts, "blobs/a", b"one").await;
    // After a lost answer the first write is already there.
    assert!(matches!(first, Put::Created | Put::Same), "{first:?}");
    assert_eq!(put(&receipts, "blobs/a", b"one").await, Put::Same);
    assert_eq!(put(&receipts, "blobs/a", b"two").await, Put::Different);
    assert_eq!(put(&receipts, "blobs/a", b"").await, Put::Different);
    assert_eq!(receipts.get("blobs/a").await.unwrap().as_deref(), Some(&b"one"[..]));
}

async fn nothing_is_read_where_nothing_was_written(receipts: Subject) {
    assert_eq!(receipts.get("blobs/none").await.unwrap(), None);
    put(&receipts, "blobs/a", b"one").await;
    assert_eq!(receipts.get("blobs/b").await.unwrap(), None);
}

async fn race(receipts: &Subject, bytes: fn(u8) -> Vec<u8>) -> Vec<Put> {
    let writers = (0..16).map(|n| {
        let receipts = Arc::clone(receipts);
        tokio::spawn(async move { put(&receipts, "runs/acme/r1/intent", &bytes(n)).await })
    });
    futures::future::join_all(writers).await.into_iter().map(Result::unwrap).collect()
}

// Rule 12: one intent stands, and exactly one attempt knows that it is its own.
async fn one_of_many_writers_creates(receipts: Subject) {
    let puts = race(&receipts, |n| vec![n; 4096]).await;
    let own = puts.iter().filter(|p| matches!(p, Put::Created | Put::Same)).count();
    assert_eq!(own, 1, "{puts:?}");
    let there = receipts.get("runs/acme/r1/intent").await.unwrap().unwrap();
    assert!(there.len() == 4096 && there.iter().all(|b| *b == there[0]), "two writes were mixed");
}

async fn many_writers_of_the_same_bytes_agree(receipts: Subject) {
    let puts = race(&receipts, |_| b"the same".to_vec()).await;
    assert!(puts.iter().filter(|p| **p == Put::Created).count() <= 1, "{puts:?}");
    assert!(puts.iter().all(|p| *p != Put::Different), "{puts:?}");
}

async fn strange_names_are_names(receipts: Subject) {
    let long = "é".repeat(50);
    let almost = format!("{}e", "é".repeat(49));
    let names = ["a/b", "..", ".", "%", "a%2Fb", "a b", "\"'\\", "🚀", "A", "a", &long, &almost];
    let run = ProvisioningRunId(Uuid::from_u128(1));
    let receipt = Digest::of(b"x");
    let link = ChainLink { epoch: 1, sequence: 1, previous: None, run, kind: ReceiptKind::Plan, receipt };
    for name in names {
        let (tenant, environment) = (TenantId::new(name).unwrap(), EnvironmentId::new(name).unwrap());
        put(&receipts, &run_key(&tenant, run, "outcome"), name.as_bytes()).await;
        put(&receipts, &chain_key(&tenant, &environment, &link), name.as_bytes()).await;
    }
    for name in names {
        let (tenant, environment) = (TenantId::new(name).unwrap(), EnvironmentId::new(name).unwrap());
        for key in [run_key(&tenant, run, "outcome"), chain_key(&tenant, &environment, &link)] {
            assert_eq!(receipts.get(&key).await.unwrap().as_deref(), Some(name.as_bytes()), "{key}");
        }
    }
    put(&receipts, &blob_key(&Digest::of(b"x")), b"x").await;
    // A listing gives back keys that can be read, and nothing of another folder.
    let keys = receipts.list("chains").await.unwrap();
    assert_eq!(keys.len(), names.len(), "{keys:?}");
    for key in keys {
        assert!(receipts.get(&key).await.unwrap().is_some(), "{key}");
    }
    assert_eq!(receipts.list("nothing").await.unwrap(), Vec::<String>::new());
}

async fn a_key_that_leaves_its_place_is_refused(receipts: Subject) {
    for key in
        ["../x", "a/../../x", "/etc/x", "a//b", "", ".", "a/.", "a\\..\\x", "a\0b", "a/", "é", "a b", "a\nb"]
    {
        // A key that is wrong stays wrong: it isn't tried again.
        let put = receipts.put_once(key, b"x").await;
        let put = match put {
            Err(e) if e.is_temporary() => receipts.put_once(key, b"x").await,
            put => put,
        };
        assert!(put.is_err_and(|e| !e.is_temporary()), "{key:?}");
        assert!(receipts.get(key).await.is_err(), "{key:?}");
    }
}

async fn empty_and_large_bytes_are_bytes(receipts: Subject) {
    put(&receipts, "blobs/empty", b"").await;
    assert_eq!(receipts.get("blobs/empty").await.unwrap().as_deref(), Some(&b""[..]));
    let large = vec![7; 5_000_000];
    put(&receipts, "blobs/large", &large).await;
    assert_eq!(receipts.get("blobs/large").await.unwrap(), Some(large));
}
