//! Callers by the tokens of an issuer: JWTs, checked by its keys. A token never reaches a log or an answer.

use std::collections::BTreeSet;

use async_trait::async_trait;
use events::{Principal, TenantId, is_service};
use http_api::{Caller, Identity, Problem, Role};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::keys::{Keys, NoKey};
use crate::signatures;

/// What a token has to say.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Who issued it.
    pub issuer: String,
    /// For whom.
    pub audience: String,
    /// The claim that names the person or service.
    pub person: String,
    /// The claim that names the tenant.
    pub tenant: String,
    /// The claim that lists the roles.
    pub roles: String,
}

/// Callers by tokens.
pub struct Tokens {
    keys: Keys,
    expected: Expected,
}

type Claims = Map<String, Value>;

/// How far two clocks may differ, in seconds.
const SKEW: u64 = 30;

fn refused(what: &str) -> Problem {
    Problem::new(
        401,
        "unauthenticated",
        format!("{what}; send `Authorization: Bearer TOKEN` with a new token"),
    )
}

impl Tokens {
    /// Tokens of an issuer's keys.
    pub fn new(keys: Keys, expected: Expected) -> Tokens {
        signatures::install();
        Tokens { keys, expected }
    }

    async fn claims(&self, token: &str) -> Result<Claims, Problem> {
        let header = decode_header(token).map_err(|e| refused(why(e.kind())))?;
        let id = header.kid.ok_or_else(|| refused("the token doesn't name its key (kid)"))?;
        let key = self.keys.key(&id).await.map_err(|e| match e {
            NoKey::Unknown => refused("the token's key is none of its issuer's"),
            NoKey::Unavailable(why) => {
                let detail = format!(
                    "the issuer's keys can't be had ({why}); try again in a minute, and see the stack's issuer and JWKS URL"
                );
                Problem::new(503, "no-keys", detail)
            }
        })?;
        // The key says with which algorithm, whatever the token says.
        let mut validation = Validation::new(key.algorithm);
        validation.leeway = SKEW;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&self.expected.issuer]);
        validation.set_audience(&[&self.expected.audience]);
        let decoded = decode::<Claims>(token, &key.key, &validation);
        decoded.map(|d| d.claims).map_err(|e| refused(why(e.kind())))
    }
}

/// What is wrong with a token, in words that hold nothing of it.
const fn why(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token isn't valid yet; see that both clocks are right",
        ErrorKind::InvalidIssuer => "the token is of another issuer",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::MissingRequiredClaim(_) => "the token lacks exp, iss or aud",
        ErrorKind::InvalidSignature => "the token's signature is wrong",
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => {
            "the token isn't signed with the algorithm of its key: RS256, ES256 or EdDSA"
        }
        _ => "that is no token",
    }
}

/// A claim by its name, or by the way to it: `realm_access.roles`.
fn claim<'a>(claims: &'a Claims, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (outer, rest) = name.split_once('.')?;
        claim(claims.get(outer)?.as_object()?, rest)
    })
}

/// Roles as issuers write them: a list, or words in one text. Those of others' products are none of ours.
fn roles(claim: Option<&Value>) -> BTreeSet<Role> {
    match claim {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).filter_map(Role::named).collect(),
        Some(Value::String(words)) => words.split([' ', ',']).filter_map(Role::named).collect(),
        _ => BTreeSet::new(),
    }
}

#[async_trait]
impl Identity for Tokens {
    async fn who(&self, token: &str) -> Result<Caller, Problem> {
        let claims = self.claims(token).await?;
        let text = |name: &str| {
            let found = claim(&claims, name).and_then(Value::as_str).filter(|t| !t.is_empty());
            found.ok_or_else(|| refused(&format!("the token has no claim {name}")))
        };
        let odd = |e: events::IdError| refused(&format!("the token's claims can't be used: {e}"));
        let caller = Caller {
            principal: Principal::new(text(&self.expected.person)?).map_err(odd)?,
            tenant: TenantId::new(text(&self.expected.tenant)?).map_err(odd)?,
            roles: roles(claim(&claims, &self.expected.roles)),
        };
        // A person who could choose such a name would carry the decisions of others.
        if is_service(&caller.principal) && !caller.roles.contains(&Role::Service) {
            let detail = format!(
                "{} is the name of a service, and the token has no role service; use another name",
                caller.principal
            );
            return Err(Problem::new(403, "role-needed", detail));
        }
        Ok(caller)
    }
}
