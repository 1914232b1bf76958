use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use contract::{CountedIds, HandClock};
use ports::{Clock, Queue};
use runtime_cloud_embedded::{Database, EmbeddedQueue, Schedule, Schedules};

use crate::open;

struct Stage {
    _folder: tempfile::TempDir,
    clock: Arc<HandClock>,
    schedules: Schedules,
    queue: EmbeddedQueue,
}

fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let (database, clock): (Database, _) = (open(folder.path()), Arc::new(HandClock::new()));
    clock.set(at(10, 0, 0));
    let time: Arc<dyn Clock> = Arc::<HandClock>::clone(&clock);
    let queue = EmbeddedQueue {
        database: database.clone(),
        clock: Arc::clone(&time),
        ids: Arc::new(CountedIds::default()),
    };
    Stage { _folder: folder, clock, schedules: Schedules { database, clock: time }, queue }
}

fn at(hour: u32, minute: u32, second: u32) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, hour, minute, second).unwrap()
}

fn every_five() -> Schedule {
    Schedule::new("Observer", "Observer", "*/5 * * * *").unwrap()
}

impl Stage {
    async fn windows(&self) -> Vec<String> {
        let mut windows = vec![];
        while let Some(delivery) = self.queue.receive("Observer", Duration::from_secs(60)).await.unwrap() {
            let body: serde_json::Value = serde_json::from_slice(&delivery.message.body).unwrap();
            windows.push(body["window"].as_str().unwrap().to_owned());
            assert!(self.queue.done(&delivery).await.unwrap());
        }
        windows
    }
}

#[tokio::test]
async fn a_window_fires_once() {
    let stage = stage();
    let five = every_five();
    assert_eq!(stage.schedules.tick(&five).await.unwrap(), Some(at(10, 0, 0)));
    assert_eq!(stage.schedules.tick(&five).await.unwrap(), None);
    stage.clock.set(at(10, 4, 59));
    assert_eq!(stage.schedules.tick(&five).await.unwrap(), None);
    stage.clock.set(at(10, 5, 0));
    assert_eq!(stage.schedules.tick(&five).await.unwrap(), Some(at(10, 5, 0)));
    assert_eq!(stage.windows().await, ["2026-03-01T10:00:00Z", "2026-03-01T10:05:00Z"]);
}

#[tokio::test]
async fn missed_ticks_fire_once_with_the_newest_window() {
    let stage = stage();
    let five = every_five();
    stage.schedules.tick(&five).await.unwrap();
    stage.windows().await;
    stage.clock.set(at(16, 33, 20));
    assert_eq!(stage.schedules.tick(&five).await.unwrap(), Some(at(16, 30, 0)));
    assert_eq!(stage.schedules.tick(&five).await.unwrap(), None);
    assert_eq!(stage.windows().await, ["2026-03-01T16:30:00Z"]);
}

#[tokio::test]
async fn a_clock_that_was_set_back_fires_no_window_again() {
    let stage = stage();
    let five = every_five();
    stage.clock.set(at(12, 0, 0));
    stage.schedules.tick(&five).await.unwrap();
    stage.clock.set(at(11, 57, 0));
    assert_eq!(stage.schedules.tick(&five).await.unwrap(), None);
    stage.clock.set(at(12, 5, 1));
    assert_eq!(stage.schedules.tick(&five).await.unwrap(), Some(at(12, 5, 0)));
}

#[tokio::test]
async fn many_tickers_fire_a_window_once() {
    let stage = stage();
    let tickers = (0..8).map(|_| {
        let schedules = stage.schedules.clone();
        tokio::spawn(async move { schedules.tick(&every_five()).await.unwrap() })
    });
    let fired: Vec<_> =
        futures::future::join_all(tickers).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!((fired.len(), stage.windows().await.len()), (1, 1));
}

#[test]
fn an_expression_that_is_none_is_refused_by_name() {
    let error = Schedule::new("Observer", "Observer", "every day").err().unwrap().to_string();
    assert!(error.contains("every day") && error.contains("Observer"), "{error}");
}
