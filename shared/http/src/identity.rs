//! Who asks, and what they may ask for.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use events::{Principal, TenantId};
use serde::{Deserialize, Serialize};

use crate::api::Shared;
use crate::problem::Problem;

/// What a caller may do. Whoever has any of them may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Plans, cancels, recovers, sends dead letters again, creates environments.
    Operator,
    /// Decides on plans.
    Approver,
    /// Sends events.
    Service,
    /// Everything.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 5] = [Role::Viewer, Role::Operator, Role::Approver, Role::Service, Role::Admin];

    /// Its name, as a token carries it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Approver => "approver",
            Role::Service => "service",
            Role::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// Whose things they may see and change: a foreign tenant's thing is not found.
    pub tenant: TenantId,
    /// What they may do.
    pub roles: BTreeSet<Role>,
}

impl Caller {
    /// Whether they may do what a role may.
    pub fn may(&self, role: Role) -> bool {
        let reads = role == Role::Viewer && !self.roles.is_empty();
        reads || self.roles.contains(&role) || self.roles.contains(&Role::Admin)
    }

    /// Refuses who lacks a role, and says which.
    pub fn need(&self, role: Role) -> Result<(), Problem> {
        if self.may(role) {
            return Ok(());
        }
        let has: Vec<&str> = self.roles.iter().map(|r| r.name()).collect();
        let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
        let detail = format!(
            "this needs role {role}, and {} has {has}; ask whoever gives roles at your identity provider",
            self.principal
        );
        Err(Problem::new(403, "role-needed", detail))
    }
}

/// Knows callers by their token.
#[async_trait]
pub trait Identity: Send + Sync {
    /// Who carries a token; a problem says what is wrong with it, and never repeats it.
    async fn who(&self, token: &str) -> Result<Caller, Problem>;
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Routes for those who have a role. A route that isn't among any such routes knows no caller.
pub(crate) fn needing(api: &Shared, role: Role, routes: Router<Shared>) -> Router<Shared> {
    routes.route_layer(from_fn_with_state((api.clone(), role), authenticate))
}

async fn authenticate(
    State((api, role)): State<(Shared, Role)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let missing =
        || Problem::new(401, "unauthenticated", "there is no token; send `Authorization: Bearer TOKEN`");
    let token = bearer(request.headers()).ok_or_else(missing)?;
    let caller = api.identity.who(token).await?;
    let mut response = match caller.need(role) {
        Ok(()) => {
            request.extensions_mut().insert(caller.clone());
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    };
    // For whoever logs what was asked.
    response.extensions_mut().insert(caller);
    Ok(response)
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Caller, Problem> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| {
            Problem::new(401, "unauthenticated", "this route knows no caller; it is a defect, report it")
        })
    }
}
