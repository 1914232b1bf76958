//! A full disk: nothing is half-written, and whoever asked is told that nothing was.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use contract::Sample;
use domain::EnvironmentSlot;
use ports::commit::{CommitError, Op};
use ports::{Commit, Put, Receipts, Secret, Store};
use runtime_cloud_embedded::{Database, DiskReceipts, FileSecrets, RandomIds};

use crate::{epoch, open, pair, store};

/// A file system of 4 MB; none where this user may not mount one, and the test says that it was skipped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|o| o.status.success());
        if !mounted {
            eprintln!("skipped: this user may not mount a small file system");
        }
        mounted.then_some(Small(folder))
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("filler")).unwrap();
        while std::io::Write::write(&mut file, &[0; 4096]).is_ok() {}
    }
    fn free(&self) {
        std::fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.path()).output());
    }
}

/// A commit of a row and a large one beside it.
fn large(sample: &Sample, number: u32) -> Commit {
    let mut commit = Commit::of(Sample::slot("acme", &format!("small-{number}")), &sample.cx())
        .and(Sample::slot("acme", &format!("large-{number}")));
    if let Some(Op::Put { row, .. }) = commit.ops.last_mut() {
        row.body = serde_json::to_vec(&"x".repeat(300_000)).unwrap();
    }
    commit
}

async fn is_there(store: &Store, number: u32) -> bool {
    let id = Sample::slot_id("acme", &format!("small-{number}"));
    store.load::<EnvironmentSlot>(&id).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_whole_commits_and_goes_on_when_there_is_room() {
    let Some(disk) = Small::mount() else { return };
    let sample = Sample::default();
    let database = open(disk.path());
    let store = store(&database);
    pair(&store, &sample).await;
    disk.fill();
    for number in 0..5 {
        let answer = store.commit(large(&sample, number)).await;
        assert!(matches!(&answer, Err(CommitError::NotApplied(e)) if e.is_temporary()), "{answer:?}");
        assert!(!is_there(&store, number).await, "half of a commit is there");
    }
    assert_eq!(epoch(&store).await, 1);
    assert!(database.failed().borrow().is_none(), "a full disk is no reason to distrust it");
    disk.free();
    pair(&store, &sample).await;
    assert_eq!(epoch(&store).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_share_a_transaction_with_one_that_does_not_fit_are_told_the_truth() {
    let Some(disk) = Small::mount() else { return };
    let sample = Arc::new(Sample::default());
    let database = open(disk.path());
    let all = (0..24).map(|number| {
        let (store, sample) = (store(&database), Arc::clone(&sample));
        tokio::spawn(async move { (number, store.commit(large(&sample, number)).await) })
    });
    let (mut written, mut refused) = (0, 0);
    for one in futures::future::join_all(all).await {
        let (number, answer) = one.unwrap();
        let there = is_there(&store(&database), number).await;
        match answer {
            Ok(_) => {
                written += 1;
                assert!(there, "{number} was written and is gone");
            }
            Err(CommitError::NotApplied(_)) => {
                refused += 1;
                assert!(!there, "{number} was not applied and is there");
            }
            Err(CommitError::Unknown(e)) => panic!("{number}: {}", e.chain()),
        }
    }
    assert!(refused > 0, "24 commits of 300 KB fit into 4 MB: {written}");
    // What is there after all is there for the next who opens it, too.
    let again = open(disk.path());
    let mut found = 0;
    for number in 0..24 {
        found += u32::from(is_there(&store(&again), number).await);
    }
    assert_eq!(found, written);
}

#[tokio::test]
async fn a_receipt_that_does_not_fit_is_not_there() {
    let Some(disk) = Small::mount() else { return };
    let receipts = DiskReceipts { folder: disk.path().to_owned(), ids: Arc::new(RandomIds) };
    assert_eq!(receipts.put_once("blobs/first", b"x").await.unwrap(), Put::Created);
    let large = vec![1; 6_000_000];
    assert!(receipts.put_once("blobs/large", &large).await.unwrap_err().is_temporary());
    assert_eq!(receipts.get("blobs/large").await.unwrap(), None);
    // What it had begun went away again.
    assert_eq!(receipts.put_once("blobs/second", &vec![2; 3_000_000]).await.unwrap(), Put::Created);
}

#[test]
fn a_full_disk_is_no_damaged_store() {
    let Some(disk) = Small::mount() else { return };
    // A whole store in one file, as it lies there when no host runs.
    let made = tempfile::tempdir().unwrap();
    let database = open(made.path());
    let connection = rusqlite::Connection::open(database.path()).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let file = disk.path().join("store.sqlite");
    std::fs::copy(database.path(), &file).unwrap();
    disk.fill();
    let error = Database::open(&file).err().expect("a store was opened on a full disk").to_string();
    assert!(error.contains("store.sqlite") && error.contains("disk is full"), "{error}");
    assert!(!error.contains("damaged") && !error.contains("backup") && !error.contains("anew"), "{error}");
    disk.free();
    assert!(Database::open(&file).is_ok());
}

#[test]
fn a_secret_that_does_not_fit_is_named_and_leaves_nothing() {
    let Some(disk) = Small::mount() else { return };
    let secrets = FileSecrets { folder: disk.path().to_owned(), command: None, ids: Arc::new(RandomIds) };
    let tenant = Sample::tenant("acme");
    secrets.set(&tenant, "db", &Secret::new("first")).unwrap();
    disk.fill();
    let error = secrets.set(&tenant, "db", &Secret::new("x".repeat(100_000))).unwrap_err().to_string();
    let folder = disk.path().join("values/acme");
    assert!(error.contains("secret db") && error.contains(folder.to_str().unwrap()), "{error}");
    assert_eq!(std::fs::read_to_string(folder.join("db")).unwrap(), "first");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
}
