//! The door of everything that the buses send: events for the handlers, and what the jobs' bucket tells.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use ports::Queue;
use runtime_cloud_functions::door::{DoorError, SystemClock, cannot_begin, deadline, logs};
use runtime_cloud_functions::queue::{Queues, failure, record};
use runtime_cloud_functions::runner_finished;
use runtime_cloud_functions::wiring::{Account, RUNNER_FINISHED, handlers};

/// Between two deliveries of what could not be settled.
const SOON: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logs();
    let account = Account::connect().await;
    let begin = async {
        let consumers = handlers(&account).await?;
        Ok(Queues { queue: account.queue()?, consumers, clock: Arc::new(SystemClock) })
    };
    let queues = begin.await.map_err(|e: DoorError| cannot_begin(&e))?;
    let handle = async |event: LambdaEvent<SqsEvent>| {
        let until = deadline(&event.context);
        let arn = |m: &aws_lambda_events::sqs::SqsMessage| m.event_source_arn.clone().unwrap_or_default();
        let (finished, events): (Vec<_>, Vec<_>) =
            event.payload.records.into_iter().partition(|m| arn(m).ends_with(RUNNER_FINISHED));
        let mut batch = SqsEvent::default();
        batch.records = events;
        let mut response = queues.handle(batch, until).await;
        for message in finished {
            wake(&queues, message, &mut response).await;
        }
        Ok::<_, Error>(response)
    };
    run(service_fn(handle)).await
}

/// Sends the message that goes on with a run.
async fn wake(queues: &Queues, message: aws_lambda_events::sqs::SqsMessage, response: &mut SqsBatchResponse) {
    let id = message.message_id.clone().unwrap_or_default();
    let delivery = record(message).delivery(RUNNER_FINISHED, 0);
    let settled = match runner_finished::message(&delivery.message.body) {
        Ok(message) => queues.queue.send(&message).await.map(|()| true),
        Err(fault) => queues.queue.bury(&delivery, &ports::error::chain(&fault)).await,
    };
    match settled {
        Ok(true) => return,
        Ok(false) => {}
        Err(e) => {
            tracing::warn!(message = id, error = %e.chain(), "not settled; it comes again");
            // Soon: a run waits for it.
            if let Err(e) = queues.queue.retry(&delivery, SOON, false).await {
                tracing::warn!(message = id, error = %e.chain(), "it comes again when its queue shows it");
            }
        }
    }
    response.batch_item_failures.push(failure(id));
}
