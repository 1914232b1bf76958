use std::io::{Seek, SeekFrom, Write};

use contract::Sample;
use ports::Commit;
use ports::commit::CommitError;
use runtime_cloud_embedded::{Database, DatabaseError};

use crate::{open, store};

#[test]
fn a_file_that_is_no_store_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    std::fs::write(&file, vec![b'x'; 8192]).unwrap();
    let error = Database::open(&file).err().unwrap().to_string();
    assert!(error.contains("store.sqlite") && error.contains("restore a backup"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), vec![b'x'; 8192], "it was written to");
}

#[tokio::test]
async fn a_damaged_store_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    let sample = Sample::default();
    {
        let database = open(folder.path());
        for n in 0..200 {
            let commit = Commit::of(Sample::specification("acme", &format!("e{n}")), &sample.cx());
            assert_eq!(store(&database).commit(commit).await.unwrap(), ports::Committed::Yes);
        }
        // The log goes into the file, so that the file is what gets read.
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    }
    let size = std::fs::metadata(&file).unwrap().len();
    let mut damaged = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    damaged.seek(SeekFrom::Start(size / 2)).unwrap();
    damaged.write_all(&vec![0xAA; usize::try_from(size / 2).unwrap()]).unwrap();
    drop(damaged);
    for rest in ["-wal", "-shm"] {
        drop(std::fs::remove_file(folder.path().join(format!("store.sqlite{rest}"))));
    }
    let error = Database::open(&file).err().expect("a damaged store was opened").to_string();
    assert!(error.contains("damaged") && error.contains("runtime-cloud backup restore"), "{error}");
}

#[test]
fn a_store_of_a_newer_version_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let file = folder.path().join("store.sqlite");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Database::open(&file).err().unwrap();
    assert!(matches!(error, DatabaseError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("upgrade runtime-cloud"), "{error}");
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Database::open(&folder.path().join("gone/store.sqlite")).err().unwrap().to_string();
    assert!(error.contains("gone"), "{error}");
}

#[test]
fn opening_twice_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        drop(open(folder.path()));
    }
}

#[tokio::test]
async fn a_store_that_somebody_else_holds_says_that_nothing_was_written() {
    let (folder, sample) = (tempfile::tempdir().unwrap(), Sample::default());
    let database = open(folder.path());
    let other = rusqlite::Connection::open(database.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commit = Commit::of(Sample::slot("acme", "e1"), &sample.cx());
    let answer = store(&database).commit(commit.clone()).await;
    assert!(matches!(&answer, Err(CommitError::NotApplied(e)) if e.is_temporary()), "{answer:?}");
    assert!(database.failed().borrow().is_none(), "a lock is no reason to distrust the disk");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store(&database).commit(commit).await.unwrap(), ports::Committed::Yes);
}
