//! RunWatch's door: a tick each minute, and the messages that a tick sends, one for each environment.

use std::sync::Arc;

use application::Consumer;
use application::work::consumer;
use application::workers::{RunWatch, WatchRuns};
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use chrono::{DateTime, Utc};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use ports::{Clock, Cx, Ids};
use runtime_cloud_functions::door::{DoorError, RandomIds, SystemClock, cannot_begin, deadline, logs};
use runtime_cloud_functions::metrics;
use runtime_cloud_functions::queue::Queues;
use runtime_cloud_functions::wiring::{Account, run_watch};
use serde::Deserialize;

/// What wakes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Woken {
    /// Its schedule: a tick that comes twice has the same time.
    Tick { time: DateTime<Utc> },
    /// Its queue.
    Queue(SqsEvent),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logs();
    let account = Account::connect().await;
    let begin = async {
        let watch: Arc<dyn Consumer> = consumer::<RunWatch>(run_watch(&account).await?).into();
        let consumers = vec![Arc::clone(&watch)];
        Ok((watch, Queues { queue: account.queue()?, consumers, clock: Arc::new(SystemClock) }))
    };
    let (watch, queues) = begin.await.map_err(|e: DoorError| cannot_begin(&e))?;
    let handle = async |event: LambdaEvent<Woken>| {
        let until = deadline(&event.context);
        match event.payload {
            Woken::Queue(messages) => Ok(queues.handle(messages, until).await),
            Woken::Tick { time } => tick(&*watch, time, until).await.map(|()| SqsBatchResponse::default()),
        }
    };
    run(service_fn(handle)).await
}

/// A tick that fails is followed by the next one.
async fn tick(watch: &dyn Consumer, window: DateTime<Utc>, deadline: DateTime<Utc>) -> Result<(), Error> {
    let input = serde_json::to_vec(&WatchRuns { window, due: None })?;
    let cx = Cx {
        message: RandomIds.fresh(),
        correlation: format!("watch/{}", window.to_rfc3339()),
        trace: None,
        now: SystemClock.now(),
        attempt: 1,
        deadline,
    };
    let report = watch.deliver(&input, &cx).await.map_err(|e| Error::from(ports::error::chain(&e)))?;
    metrics::watched(&report);
    tracing::info!(%report, "watched");
    Ok(())
}
