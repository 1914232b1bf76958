//! The loops that feed workers and handlers from their queues, at most as many at once as the catalogue says.

use std::sync::Arc;
use std::time::Duration;

use application::settle::settle;
use application::{Consumer, Fault};
use chrono::TimeDelta;
use ports::queue::Delivery;
use ports::{Clock, Cx, Queue};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// How long a received message stays hidden before it has to be extended.
const LEASE: Duration = Duration::from_secs(60);
/// How often it is extended.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// A backstop for messages whose delay runs out.
const LOOK: Duration = Duration::from_millis(500);

/// One consumer's loop, until `stop` says so. What is in flight then is dropped: it is received again.
pub async fn consume(
    consumer: Arc<dyn Consumer>,
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    mut changed: watch::Receiver<u64>,
    mut stop: watch::Receiver<bool>,
) {
    let row = consumer.row();
    let free = Arc::new(Semaphore::new(usize::try_from(row.concurrency).unwrap_or(1)));
    let mut flying = JoinSet::new();
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&free).acquire_owned() => permit,
            _ = stop.wait_for(|s| *s) => break,
        };
        let Ok(permit) = permit else { break };
        changed.mark_unchanged();
        let received = queue.receive(row.name, LEASE).await;
        while flying.try_join_next().is_some() {}
        match received {
            Ok(Some(delivery)) => {
                let (consumer, queue, clock) =
                    (Arc::clone(&consumer), Arc::clone(&queue), Arc::clone(&clock));
                flying.spawn(async move {
                    handle(&*consumer, &*queue, &*clock, delivery).await;
                    drop(permit);
                });
                continue;
            }
            Ok(None) => {}
            Err(e) => tracing::warn!(queue = row.name, error = %e.chain(), "nothing could be received"),
        }
        drop(permit);
        tokio::select! {
            _ = changed.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.wait_for(|s| *s) => break,
        }
    }
}

async fn handle(consumer: &dyn Consumer, queue: &dyn Queue, clock: &dyn Clock, delivery: Delivery) {
    let row = consumer.row();
    let mut races = 0;
    let (cx, result) = loop {
        let now = clock.now();
        let cx = Cx {
            message: delivery.message.id,
            correlation: delivery.message.correlation.clone(),
            trace: delivery.message.trace,
            now,
            attempt: delivery.failures + 1,
            deadline: now + TimeDelta::minutes(5),
        };
        match work(consumer, queue, &delivery, &cx).await {
            // A lost race is settled here: the message need not go back for it.
            Err(Fault::Wait { delay, .. }) if application::settle::is_race(delay, races) => {
                races += 1;
                tokio::time::sleep(delay).await;
            }
            result => break (cx, result),
        }
    };
    let settled = match result {
        Ok(report) => {
            tracing::debug!(queue = row.name, message = %cx.message, %report, "done");
            queue.done(&delivery).await
        }
        Err(fault) => settle(row, queue, &delivery, cx.attempt, fault).await.map(|_| true),
    };
    if let Err(e) = settled {
        tracing::warn!(queue = row.name, message = %cx.message, error = %e.chain(), "not settled; it comes again");
    }
}

/// Delivers, and keeps the message hidden meanwhile.
async fn work(
    consumer: &dyn Consumer,
    queue: &dyn Queue,
    delivery: &Delivery,
    cx: &Cx,
) -> Result<serde_json::Value, Fault> {
    let work = consumer.deliver(&delivery.message.body, cx);
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            () = tokio::time::sleep(HEARTBEAT) => {
                if !matches!(queue.extend(delivery, LEASE).await, Ok(true)) {
                    let queue = consumer.row().name;
                    tracing::warn!(queue, message = %cx.message, "the message was taken away; somebody else has it");
                }
            }
        }
    }
}
