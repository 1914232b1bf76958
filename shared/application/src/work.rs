//! What a worker is, and what can become of a piece of work.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use ports::commit::{CommitError, Committed, Destination};
use ports::error::Source;
use ports::{Cx, PortError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::catalog::Row;

/// Why a piece of work didn't end well.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It may work later; counts as a failed attempt.
    #[error("it failed and is tried again")]
    Again(#[source] Source),
    /// Something has to happen first; doesn't count.
    #[error("it waits: {why}")]
    Wait {
        /// For what.
        why: String,
        /// How long until it is tried again.
        delay: Duration,
    },
    /// It won't work.
    #[error("it can't work")]
    Never(#[source] Source),
    /// An aggregate said no.
    #[error("refused ({code})")]
    Refused {
        /// By code.
        code: &'static str,
        /// Why.
        #[source]
        why: Source,
    },
}

impl Fault {
    /// An aggregate said no.
    pub fn refused<R: domain::Refusal>(refusal: R) -> Fault {
        Fault::Refused { code: refusal.code(), why: Box::new(refusal) }
    }
    /// Somebody was faster; load again.
    pub fn raced() -> Fault {
        Fault::Wait { why: "somebody else wrote first".to_owned(), delay: Duration::from_millis(20) }
    }
}

impl From<PortError> for Fault {
    fn from(error: PortError) -> Fault {
        if error.is_temporary() { Fault::Again(Box::new(error)) } else { Fault::Never(Box::new(error)) }
    }
}

impl From<CommitError> for Fault {
    fn from(error: CommitError) -> Fault {
        Fault::Again(Box::new(error))
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Fault {
        Fault::Never(Box::new(error))
    }
}

/// A conflict means: load again and decide anew.
pub fn or_again(committed: Committed) -> Result<(), Fault> {
    match committed {
        Committed::Yes => Ok(()),
        Committed::Conflict(conflicts) => {
            tracing::debug!(?conflicts, "somebody else wrote first");
            Err(Fault::raced())
        }
    }
}

/// A worker or a handler: one row of the catalogue.
pub trait Worker: Send + Sync + 'static {
    /// Its row.
    const ROW: &'static Row;
    /// What it is given.
    type Input: Serialize + DeserializeOwned + Send + Sync;
    /// What it says of it.
    type Report: Serialize + Send;
    /// The row's idempotency key.
    fn key(input: &Self::Input) -> String;
    /// The row's concurrency group.
    fn group(input: &Self::Input) -> String;
    /// Does it.
    fn run(&self, input: Self::Input, cx: &Cx) -> impl Future<Output = Result<Self::Report, Fault>> + Send;
}

/// Where a message for a worker goes.
pub fn to<W: Worker>(input: &W::Input) -> Result<Destination, Fault> {
    Ok(Destination { queue: W::ROW.name, group: W::group(input), body: serde_json::to_vec(input)? })
}

/// What the loops hold.
#[async_trait]
pub trait Consumer: Send + Sync {
    /// The row.
    fn row(&self) -> &'static Row;
    /// Handles one message.
    async fn deliver(&self, body: &[u8], cx: &Cx) -> Result<serde_json::Value, Fault>;
}

struct Of<W>(W);

#[async_trait]
impl<W: Worker> Consumer for Of<W> {
    fn row(&self) -> &'static Row {
        W::ROW
    }
    async fn deliver(&self, body: &[u8], cx: &Cx) -> Result<serde_json::Value, Fault> {
        let input: W::Input = serde_json::from_slice(body).map_err(|e| {
            let what = format!("it is no message for {}", W::ROW.name);
            PortError::broken_by(what, "only this system itself sends to its queue: see who else may", e)
        })?;
        let report = self.0.run(input, cx).await?;
        Ok(serde_json::to_value(report)?)
    }
}

/// Makes a worker deliverable.
pub fn consumer<W: Worker>(worker: W) -> Box<dyn Consumer> {
    Box::new(Of(worker))
}
