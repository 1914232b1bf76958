//! What becomes of a delivery whose handling failed: tried again, or put aside. The same on every queue.

use std::time::Duration;

use ports::PortError;
use ports::queue::{Delivery, Queue};

use crate::catalog::{Retry, Row};
use crate::work::Fault;

/// How often a lost race is run again in place before its message goes back to the queue.
const RACES: u32 = 20;
/// A wait that is longer is no lost race.
const RACE: Duration = Duration::from_secs(1);
/// Between two deliveries of work that counts no attempts.
const AGAIN: Duration = Duration::from_secs(5);

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It comes again.
    Again,
    /// Nobody can handle it: it is put aside, with its reason.
    Dead,
    /// Somebody else has it meanwhile.
    Lost,
}

/// Whether to run again in place: somebody was faster, and it hasn't happened too often.
pub fn is_race(delay: Duration, races: u32) -> bool {
    delay < RACE && races < RACES
}

/// Settles a delivery that failed, at its `attempt`.
pub async fn settle(
    row: &Row,
    queue: &dyn Queue,
    delivery: &Delivery,
    attempt: u32,
    fault: Fault,
) -> Result<Settled, PortError> {
    let reason = ports::error::chain(&fault);
    let message = &delivery.message.id;
    if delivery.deliveries >= row.deliveries {
        let why = format!("delivered {} times; last: {reason}", delivery.deliveries);
        return put_aside(queue, delivery, &why).await;
    }
    match fault {
        Fault::Wait { delay, .. } => again(queue, delivery, delay, false).await,
        Fault::Again(_) if row.retry == Retry::None => {
            // "Once" counts from the claim; before it a failure is tried again, and after it nothing is done twice.
            tracing::warn!(queue = row.name, %message, reason, "failed, comes again");
            again(queue, delivery, AGAIN, false).await
        }
        Fault::Again(_) if attempt < row.retry.attempts() => {
            tracing::warn!(queue = row.name, %message, attempt, reason, "failed, tried again");
            again(queue, delivery, row.retry.delay(attempt), true).await
        }
        Fault::Again(_) | Fault::Never(_) | Fault::Refused { .. } => {
            tracing::error!(queue = row.name, %message, reason, "put aside as a dead letter");
            put_aside(queue, delivery, &reason).await
        }
    }
}

async fn again(
    queue: &dyn Queue,
    delivery: &Delivery,
    delay: Duration,
    failed: bool,
) -> Result<Settled, PortError> {
    Ok(if queue.retry(delivery, delay, failed).await? { Settled::Again } else { Settled::Lost })
}

async fn put_aside(queue: &dyn Queue, delivery: &Delivery, reason: &str) -> Result<Settled, PortError> {
    Ok(if queue.bury(delivery, reason).await? { Settled::Dead } else { Settled::Lost })
}
