//! Many workers on one row, of a database that is too busy: each answer is heard, some say that it was not done.

use domain::{EnvironmentSlot, Version};
use ports::Commit;

use super::Database;
use crate::sample::Sample;

crate::case::table! {
    /// Each with a fresh database.
    Database:
    every_one_of_many_writers_steps_once,
}

// No step is lost, and none is made twice.
async fn every_one_of_many_writers_steps_once(db: Database) {
    db.written(Commit::of(Sample::slot("acme", "e1"), &db.sample.cx())).await;
    let writers = (0..32).map(|_| {
        let db = db.clone();
        tokio::spawn(async move {
            loop {
                let read = match db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await {
                    Ok(read) => read,
                    Err(e) if e.is_temporary() => continue,
                    Err(e) => panic!("{e}"),
                };
                let change = read.decide(Sample::step(), Sample::now()).unwrap();
                if db.commit(Commit::of(change, &db.sample.cx())).await == ports::Committed::Yes {
                    break;
                }
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap();
    }
    let read = db.store().need::<EnvironmentSlot>(&Sample::slot_id("acme", "e1")).await.unwrap();
    assert_eq!((read.version(), read.epoch), (Version(33), 33));
}
