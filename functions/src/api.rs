//! The API's door: the same routes as a host's, over the account, for the callers of an issuer's tokens.

use std::sync::Arc;
use std::time::Duration;

use application::commands::{CancelProvisioning, PlanProvisioning, Recover};
use application::finish::Finisher;
use axum::Router;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use git::{GitPrograms, GitSource, Limits};
use http_api::{Api, Caller, Problem};
use policies::CedarPolicies;
use ports::{Artifacts, Receipts, Runner};

use crate::door::{DoorError, RandomIds, SystemClock, optional, variable};
use crate::identity::{Expected, Tokens};
use crate::keys::Keys;
use crate::operations::AccountOperations;
use crate::wiring::{Account, settings};

/// The issuer's settings.
pub fn identity() -> Result<Tokens, DoorError> {
    let claim = |name: &str, usual: &str| optional(name).unwrap_or_else(|| usual.to_owned());
    let expected = Expected {
        issuer: variable("RUNTIME_CLOUD_JWT_ISSUER")?,
        audience: variable("RUNTIME_CLOUD_JWT_AUDIENCE")?,
        person: claim("RUNTIME_CLOUD_JWT_PERSON_CLAIM", "sub"),
        tenant: claim("RUNTIME_CLOUD_JWT_TENANT_CLAIM", "tenant"),
        roles: claim("RUNTIME_CLOUD_JWT_ROLES_CLAIM", "roles"),
    };
    let url = optional("RUNTIME_CLOUD_JWKS_URL");
    Ok(Tokens::new(Keys::of(expected.issuer.clone(), url, Arc::new(SystemClock))?, expected))
}

/// What fits on this function's disk, which template.yaml gives it: one repository at a time.
const FITTING: Limits =
    Limits { files: 50_000, bytes: 512 << 20, fetch_bytes: 768 << 20, unused: Duration::ZERO };

/// Wires the routes.
pub async fn router(account: &Account) -> Result<Router, DoorError> {
    let store = account.store().await?;
    let receipts: Arc<dyn Receipts> = Arc::new(account.receipts()?);
    let artifacts: Arc<dyn Artifacts> = Arc::new(account.artifacts("artifacts/")?);
    let runner: Arc<dyn Runner> = Arc::new(account.runner().await?);
    let queue = account.queue()?;
    let bus = account.bus()?;
    let programs = Arc::new(GitPrograms {
        source: GitSource::new(std::env::temp_dir().join("runtime-cloud-git"), FITTING),
        secrets: Arc::new(account.secrets()?),
        clock: Arc::new(SystemClock),
    });
    let operations = Arc::new(AccountOperations {
        config: account.config_platform()?,
        store: store.clone(),
        queue: queue.clone(),
        tables: account.tables()?,
        dynamodb: account.clients.dynamodb(),
        receipts: account.receipts()?,
        artifacts_bucket: account.artifacts("artifacts/")?.bucket,
        bus: bus.bus.clone(),
    });
    let finisher =
        Finisher { store: store.clone(), receipts: Arc::clone(&receipts), artifacts: Arc::clone(&artifacts) };
    let api = Api {
        identity: Arc::new(identity()?),
        store: store.clone(),
        receipts,
        artifacts,
        bus: Arc::new(bus),
        log: operations.clone(),
        queue: Arc::new(queue),
        policy: Arc::new(CedarPolicies::load(None)?),
        programs: programs.clone(),
        operations,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        plan: PlanProvisioning { store: store.clone(), programs, settings: settings()? },
        cancel: CancelProvisioning { store, runner: Arc::clone(&runner) },
        recover: Recover { finisher, runner },
    };
    Ok(http_api::router(Arc::new(api)).layer(from_fn(around)))
}

/// A function's answer has 6 MB at most, and goes out as a text in JSON, where it may double.
const LARGEST: u64 = 2_900_000;

/// Says who asked for what, and keeps answers to what a function can give.
async fn around(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let caller = response.extensions().get::<Caller>();
    let (by, tenant) = caller.map_or(("", ""), |c| (c.principal.as_str(), c.tenant.as_str()));
    tracing::info!(%method, path, status = response.status().as_u16(), by, tenant, "asked");
    let bytes = response.body().size_hint().lower();
    if bytes <= LARGEST {
        return response;
    }
    let detail = format!(
        "the answer has {bytes} bytes, and a function can give {LARGEST}; ask for less, or read it in the stack's buckets"
    );
    Problem::new(507, "too-large-to-answer", detail).into_response()
}
