//! RunWatch's door: a tick each minute.

use application::Worker;
use application::workers::{RunWatch, WatchRuns};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use ports::{Clock, Cx, Ids};
use runtime_cloud_functions::door::{RandomIds, SystemClock, cannot_begin, deadline, logs};
use runtime_cloud_functions::wiring::{Account, run_watch};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logs();
    let account = Account::connect().await;
    let watch = run_watch(&account).await.map_err(|e| cannot_begin(&e))?;
    let handle = async |event: LambdaEvent<Value>| {
        let now = SystemClock.now();
        let message = RandomIds.fresh();
        let input = WatchRuns { window: now };
        let cx = Cx {
            message,
            correlation: <RunWatch as Worker>::key(&input),
            now,
            attempt: 1,
            deadline: deadline(&event.context),
        };
        // A tick that fails is followed by the next one.
        let watched = watch.run(input, &cx).await.map_err(|e| Error::from(ports::error::chain(&e)))?;
        tracing::info!(?watched, "watched");
        Ok::<_, Error>(serde_json::to_value(watched)?)
    };
    run(service_fn(handle)).await
}
