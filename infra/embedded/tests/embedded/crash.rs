use std::fs;
use std::path::Path;

use contract::Sample;
use domain::EnvironmentSlot;
use ports::Letters;
use runtime_cloud_embedded::EmbeddedLetters;

use crate::{epoch, open, pair, store};

/// What a machine that lost its power now would find.
fn snapshot(from: &Path, to: &Path) {
    for file in ["store.sqlite", "store.sqlite-wal"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_kill() {
    let (folder, sample) = (tempfile::tempdir().unwrap(), Sample::default());
    let database = open(folder.path());
    for expected in 1..=20 {
        pair(&store(&database), &sample).await;
        let after = tempfile::tempdir().unwrap();
        snapshot(folder.path(), after.path());
        assert_eq!(epoch(&store(&open(after.path()))).await, expected);
    }
}

#[tokio::test]
async fn a_log_that_was_cut_off_loses_whole_commits_only() {
    let (folder, sample) = (tempfile::tempdir().unwrap(), Sample::default());
    let database = open(folder.path());
    for _ in 0..10 {
        pair(&store(&database), &sample).await;
    }
    let log = fs::metadata(folder.path().join("store.sqlite-wal")).unwrap().len();
    let mut last = 0;
    for cut in (0..=20).map(|n| log * n / 20) {
        let after = tempfile::tempdir().unwrap();
        snapshot(folder.path(), after.path());
        let torn = fs::OpenOptions::new().write(true).open(after.path().join("store.sqlite-wal")).unwrap();
        torn.set_len(cut).unwrap();
        let store = store(&open(after.path()));
        let there = store.load::<EnvironmentSlot>(&Sample::slot_id("acme", "one")).await.unwrap();
        let found = if there.is_some() { epoch(&store).await } else { 0 };
        assert!(found >= last, "a longer log holds less");
        last = found;
    }
    assert_eq!(last, 10);
}

#[tokio::test]
async fn letters_survive_with_the_rows_that_carry_them() {
    let (folder, sample) = (tempfile::tempdir().unwrap(), Sample::default());
    let database = open(folder.path());
    let commit = ports::Commit::of(Sample::specification("acme", "e1"), &sample.cx());
    assert_eq!(store(&database).commit(commit).await.unwrap(), ports::Committed::Yes);
    let after = tempfile::tempdir().unwrap();
    snapshot(folder.path(), after.path());
    let before = EmbeddedLetters(database).pending(10).await.unwrap();
    assert_eq!(before.len(), 1);
    assert_eq!(EmbeddedLetters(open(after.path())).pending(10).await.unwrap(), before);
}

#[tokio::test]
async fn a_writer_that_is_gone_leaves_the_store_to_the_next() {
    let (folder, sample) = (tempfile::tempdir().unwrap(), Sample::default());
    for expected in 1..=3 {
        let database = open(folder.path());
        pair(&store(&database), &sample).await;
        assert_eq!(epoch(&store(&database)).await, expected);
    }
}
