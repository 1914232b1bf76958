//! Problems (RFC 9457): what happened, and what to do.

use application::Fault;
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ports::PortError;
use serde::{Deserialize, Serialize};

/// A problem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:runtime-cloud:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// One sentence, with what to do.
    pub detail: String,
}

impl Problem {
    /// A problem by code.
    pub fn new(status: u16, code: &str, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("urn:runtime-cloud:problem:{code}"),
            title: code.to_owned(),
            status,
            detail: detail.into(),
        }
    }

    /// A thing that the caller's tenant doesn't have.
    pub fn not_found(what: impl std::fmt::Display) -> Problem {
        Problem::new(404, "not-found", format!("{what} is unknown; check its id"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let challenge =
            (status == StatusCode::UNAUTHORIZED).then_some([(header::WWW_AUTHENTICATE, "Bearer")]);
        (status, challenge, kind, Json(self)).into_response()
    }
}

impl From<PortError> for Problem {
    fn from(error: PortError) -> Problem {
        if error.is_temporary() {
            Problem::new(503, "unavailable", error.chain())
        } else {
            Problem::new(422, "broken", error.chain())
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        match fault {
            Fault::Again(why) => Problem::new(503, "unavailable", ports::error::chain(&*why)),
            Fault::Wait { why, .. } => Problem::new(409, "conflict", format!("{why}; try again")),
            Fault::Never(why) => Problem::new(422, "invalid", ports::error::chain(&*why)),
            Fault::Refused { code, why } => Problem::new(409, code, ports::error::chain(&*why)),
        }
    }
}
