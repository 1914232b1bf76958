use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::Sample;
use contract::cases::until;
use runtime_cloud_embedded::{Backup, Database, prune};

use crate::{epoch, open, pair, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_store_that_is_being_written_holds_one_state() {
    let (folder, sample) = (tempfile::tempdir().unwrap(), Arc::new(Sample::default()));
    let database = open(folder.path());
    for _ in 0..3 {
        pair(&store(&database), &sample).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, sample, stop) = (store(&database), Arc::clone(&sample), Arc::clone(&stop));
        async move {
            while !stop.load(Ordering::SeqCst) {
                pair(&store, &sample).await;
            }
        }
    });
    let backup = Backup(database.clone());
    let mut last = 0;
    for n in 0..5 {
        let begun = epoch_at_least(&database).await;
        let file = folder.path().join(format!("backup-{n}.sqlite"));
        backup.to(&file).await.unwrap();
        let restored = tempfile::tempdir().unwrap();
        std::fs::copy(&file, restored.path().join("store.sqlite")).unwrap();
        let found = epoch(&store(&open(restored.path()))).await;
        assert!(found >= begun && found >= last, "the backup is older than its beginning");
        last = found;
    }
    stop.store(true, Ordering::SeqCst);
    writer.await.unwrap();
}

/// One of the two is enough while somebody writes.
async fn epoch_at_least(database: &Database) -> u32 {
    let one = Sample::slot_id("acme", "one");
    store(database).need::<domain::EnvironmentSlot>(&one).await.unwrap().epoch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_large_store_ends_while_it_is_being_written() {
    let (folder, sample) = (tempfile::tempdir().unwrap(), Arc::new(Sample::default()));
    let database = open(folder.path());
    for _ in 0..3 {
        pair(&store(&database), &sample).await;
    }
    {
        // More pages than one step of a careful backup would take.
        let connection = rusqlite::Connection::open(database.path()).unwrap();
        connection.execute_batch("CREATE TABLE Filler (body BLOB); BEGIN").unwrap();
        for _ in 0..15_000 {
            connection.execute("INSERT INTO Filler VALUES (zeroblob(4000))", []).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
    }
    let (stop, file) = (Arc::new(AtomicBool::new(false)), folder.path().join("backup.sqlite"));
    let writer = tokio::spawn({
        let (store, sample, stop) = (store(&database), Arc::clone(&sample), Arc::clone(&stop));
        async move {
            while !stop.load(Ordering::SeqCst) {
                pair(&store, &sample).await;
            }
        }
    });
    let copying = tokio::spawn({
        let (backup, file) = (Backup(database.clone()), file.clone());
        async move { backup.to(&file).await.unwrap() }
    });
    until("the backup", || async { copying.is_finished() }).await;
    copying.await.unwrap();
    stop.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    assert!(std::fs::metadata(&file).unwrap().len() > 60_000_000);
    assert!(Database::open(&file).is_ok());
}

#[test]
fn the_oldest_backups_go_and_other_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["2026-01-01.sqlite", "2026-01-03.sqlite", "2026-01-02.sqlite", "notes.txt"] {
        std::fs::write(folder.path().join(name), "x").unwrap();
    }
    prune(folder.path(), 2).unwrap();
    prune(folder.path(), 5).unwrap();
    let mut left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["2026-01-02.sqlite", "2026-01-03.sqlite", "notes.txt"]);
    // Whoever keeps none has just been told the name of the newest.
    prune(folder.path(), 0).unwrap();
    assert!(folder.path().join("2026-01-03.sqlite").exists());
    assert!(!folder.path().join("2026-01-02.sqlite").exists());
}
