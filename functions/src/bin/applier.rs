//! The Applier's door: one message at a time, from its ordered queue.

use std::sync::Arc;

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use runtime_cloud_functions::door::{SystemClock, cannot_begin, deadline, logs};
use runtime_cloud_functions::queue::Queues;
use runtime_cloud_functions::wiring::{Account, applier};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logs();
    let account = Account::connect().await;
    let begin = async {
        let consumers = vec![applier(&account).await?];
        Ok(Queues { queue: account.queue()?, consumers, clock: Arc::new(SystemClock) })
    };
    let queues = begin.await.map_err(|e: runtime_cloud_functions::door::DoorError| cannot_begin(&e))?;
    let handle = async |event: LambdaEvent<SqsEvent>| {
        Ok::<_, Error>(queues.handle(event.payload, deadline(&event.context)).await)
    };
    run(service_fn(handle)).await
}
