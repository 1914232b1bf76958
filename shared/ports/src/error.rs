//! What can go wrong at a port. Two kinds: try again, or somebody has to act.

use std::error::Error;

/// A source, for logs and chains.
pub type Source = Box<dyn Error + Send + Sync>;

/// A fault at a port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// It may work later.
    #[error("{what} is unavailable just now; if it stays so, see the cause")]
    Unavailable {
        /// What.
        what: String,
        /// Why.
        source: Source,
    },
    /// It won't work until somebody acts.
    #[error("{what}; {hint}")]
    Broken {
        /// What happened.
        what: String,
        /// What to do.
        hint: String,
        /// Why.
        source: Option<Source>,
    },
}

impl PortError {
    /// It may work later.
    pub fn unavailable(what: impl Into<String>, source: impl Into<Source>) -> Self {
        PortError::Unavailable { what: what.into(), source: source.into() }
    }
    /// Somebody has to act.
    pub fn broken(what: impl Into<String>, hint: impl Into<String>) -> Self {
        PortError::Broken { what: what.into(), hint: hint.into(), source: None }
    }
    /// Somebody has to act on this.
    pub fn broken_by(what: impl Into<String>, hint: impl Into<String>, source: impl Into<Source>) -> Self {
        PortError::Broken { what: what.into(), hint: hint.into(), source: Some(source.into()) }
    }
    /// Whether it may work later.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, PortError::Unavailable { .. })
    }
    /// The error and its causes in one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// An error and its causes in one line, for a log.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut out = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
        next = cause.source();
    }
    out
}
