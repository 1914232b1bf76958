//! How a function begins: logs for machines, one thread, connections made before the first message.

use std::fmt;

use chrono::{DateTime, Utc};
use lambda_runtime::Context;
use ports::{Clock, Ids, PortError};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use uuid::Uuid;

/// Why a function can't begin. Its text is what an operator sees.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// A variable.
    #[error("variable {name} is not set: deploy the function from template.yaml, or set it")]
    Variable {
        /// Its name.
        name: &'static str,
    },
    /// A variable's value.
    #[error("variable {name} is not {allowed}: see template.yaml")]
    Value {
        /// Its name.
        name: &'static str,
        /// What it may be.
        allowed: &'static str,
    },
    /// A port.
    #[error("{}", .0.chain())]
    Port(#[from] PortError),
    /// Where keys would come from.
    #[error(
        "{0} is no https URL: keys that check tokens come over TLS alone; correct the stack's parameters"
    )]
    Issuer(String),
    /// What fetches them.
    #[error("keys can't be fetched: {0}; see the function's certificates")]
    Client(String),
    /// The policies.
    #[error("the policies can't be read: {0}")]
    Policies(#[from] policies::PolicyError),
}

/// The value of a variable that may be missing.
#[expect(clippy::disallowed_methods, reason = "a function is told everything by its variables")]
pub fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// The value of a variable that has to be set.
pub fn variable(name: &'static str) -> Result<String, DoorError> {
    optional(name).ok_or(DoorError::Variable { name })
}

/// Logs as JSON, one line each, for CloudWatch.
pub fn logs() {
    // Targets alone: filters by fields and spans would bring regular expressions, for what no function is asked.
    let filter = optional("RUNTIME_CLOUD_LOG").and_then(|text| text.parse().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let layer = tracing_subscriber::fmt::layer().json().with_ansi(false).with_filter(filter);
    // Twice is once: whoever was first logs.
    drop(tracing_subscriber::registry().with(layer).try_init());
}

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// Ids that nobody else makes.
#[derive(Debug, Clone, Copy)]
pub struct RandomIds;

impl Ids for RandomIds {
    #[expect(clippy::disallowed_methods, reason = "this is where ids come from")]
    fn fresh(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// When the invocation ends, whatever it does.
pub fn deadline(context: &Context) -> DateTime<Utc> {
    let millis = i64::try_from(context.deadline).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(millis).unwrap_or_else(|| SystemClock.now())
}

/// Ends a function that can't begin, with the reason where Lambda shows it.
pub fn cannot_begin(error: &dyn fmt::Display) -> lambda_runtime::Error {
    tracing::error!(%error, "the function can't begin");
    error.to_string().into()
}
