//! The outbox's door: records of the tables' streams.

use aws_lambda_events::dynamodb::Event;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use runtime_cloud_functions::door::{DoorError, cannot_begin, logs};
use runtime_cloud_functions::stream::Outbox;
use runtime_cloud_functions::wiring::Account;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logs();
    let account = Account::connect().await;
    let begin = || Ok((account.bus()?, account.queue()?));
    let (bus, queue) = begin().map_err(|e: DoorError| cannot_begin(&e))?;
    tokio::join!(account.clients.meet_sqs(), account.clients.meet_event_bridge());
    let handle = async |event: LambdaEvent<Event>| {
        let outbox = Outbox { bus: &bus, queue: &queue };
        Ok::<_, Error>(outbox.forward(&event.payload.records).await)
    };
    run(service_fn(handle)).await
}
