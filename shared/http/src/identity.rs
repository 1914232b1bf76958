//! Who asks.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use events::{Principal, TenantId};

use crate::api::Shared;
use crate::problem::Problem;

/// An authenticated caller.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// Whose things they may see and change: a foreign tenant's thing is not found.
    pub tenant: TenantId,
}

/// Knows callers by their token.
pub trait Identity: Send + Sync {
    /// Who carries a token.
    fn who(&self, token: &str) -> Option<Caller>;
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Caller, Problem> {
        let header = parts.headers.get("authorization").and_then(|h| h.to_str().ok());
        let token = header.and_then(|h| h.strip_prefix("Bearer "));
        token.and_then(|t| api.identity.who(t)).ok_or_else(|| {
            Problem::new(
                401,
                "unauthenticated",
                "send `Authorization: Bearer TOKEN` with a token of this host",
            )
        })
    }
}
