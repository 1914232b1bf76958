//! What the routes work with, and the table of routes.

use std::sync::Arc;

use ::events::Envelope;
use application::Fault;
use application::commands::{CancelProvisioning, PlanProvisioning, Recover};
use application::queries::Check;
use async_trait::async_trait;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_extractor;
use axum::routing::{get, post};
use ports::{Artifacts, Bus, Clock, Cx, Ids, PolicyEngine, PortError, ProgramSource, Queue, Receipts, Store};
use serde::{Deserialize, Serialize};

use crate::extract::{LARGEST_BODY, NoQuery, no_method, no_route};
use crate::identity::{Identity, Role, needing};
use crate::problem::Problem;
use crate::{environments, events, operations, runs};

/// Everything that the routes need.
pub struct Api {
    /// Who asks.
    pub identity: Arc<dyn Identity>,
    /// The store.
    pub store: Store,
    /// Receipts.
    pub receipts: Arc<dyn Receipts>,
    /// Logs.
    pub artifacts: Arc<dyn Artifacts>,
    /// Where events arrive.
    pub bus: Arc<dyn Bus>,
    /// What was on the bus.
    pub log: Arc<dyn EventLog>,
    /// Queues.
    pub queue: Arc<dyn Queue>,
    /// Policies.
    pub policy: Arc<dyn PolicyEngine>,
    /// Programs.
    pub programs: Arc<dyn ProgramSource>,
    /// What this place does in its own way.
    pub operations: Arc<dyn Operations>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub ids: Arc<dyn Ids>,
    /// Plans that people ask for.
    pub plan: PlanProvisioning,
    /// Cancels.
    pub cancel: CancelProvisioning,
    /// What a person does where the machine can't know.
    pub recover: Recover,
}

/// The events that were on the bus.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Those of a tenant behind `after`, in their order.
    async fn log(
        &self,
        after: i64,
        tenant: &::events::TenantId,
        limit: u32,
    ) -> Result<Vec<LoggedEvent>, Problem>;
}

/// An event that was on the bus.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoggedEvent {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// The event.
    pub envelope: Envelope,
}

/// What each place does in its own way: a host, an account.
#[async_trait]
pub trait Operations: Send + Sync {
    /// Sets a configuration value; its version.
    async fn set_config(
        &self,
        tenant: &::events::TenantId,
        reference: &str,
        value: &str,
    ) -> Result<i64, PortError>;
    /// Makes a backup; its file.
    async fn backup(&self) -> Result<String, Problem>;
    /// Whether the place is in order, as far as it is a tenant's business: a line per check.
    async fn doctor(&self, tenant: &::events::TenantId) -> Vec<Check>;
}

/// The state of the routes.
pub type Shared = Arc<Api>;

impl Api {
    /// The context of one request.
    pub(crate) fn cx(&self) -> Cx {
        let message = self.ids.fresh();
        let now = self.clock.now();
        Cx {
            message,
            correlation: message.to_string(),
            trace: None,
            now,
            attempt: 1,
            deadline: now + chrono::TimeDelta::seconds(30),
        }
    }
}

/// How often a command that lost a race loads again and decides anew, before its caller is told.
const RACES: u32 = 10;

impl Api {
    /// Runs a command until nobody writes in between.
    pub(crate) async fn settled<T, F>(&self, mut command: impl FnMut(Cx) -> F) -> Result<T, Problem>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let mut tries = 0;
        loop {
            match command(self.cx()).await {
                Err(Fault::Wait { delay, .. }) if tries < RACES => {
                    tries += 1;
                    tokio::time::sleep(delay).await;
                }
                other => return other.map_err(Problem::from),
            }
        }
    }
}

/// The routes, by the role that each needs. Which role an event needs depends on the event.
pub fn router(api: Shared) -> Router {
    let one = "/v1/provisioning-runs/{run}";
    let of = |what: &str| format!("{one}/{what}");
    let plain = |routes: Router<Shared>| routes.route_layer(from_extractor::<NoQuery>());
    let read = plain(
        Router::new()
            .route("/v1/caller", get(operations::caller))
            .route("/v1/environments/{environment}", get(environments::show))
            .route("/v1/environments/{environment}/receipts", get(environments::verify))
            .route(one, get(runs::show))
            .route(&of("plan-receipt"), get(runs::plan_receipt))
            .route(&of("apply-receipt"), get(runs::apply_receipt))
            .route(&of("logs"), get(runs::logs))
            .route("/v1/doctor", get(operations::doctor))
            .route("/v1/events", post(events::publish)),
    )
    .route("/v1/events", get(events::log))
    .route("/v1/dead-letters", get(operations::dead_letters))
    .route("/v1/environments", get(environments::list))
    .route("/v1/provisioning-runs", get(runs::list));
    let operate = plain(
        Router::new()
            .route("/v1/environments/{environment}/provisioning-runs", post(runs::plan))
            .route("/v1/environments/{environment}/clear", post(environments::clear))
            .route(&of("cancel"), post(runs::cancel))
            .route(&of("break"), post(runs::break_run))
            .route("/v1/resolve", post(runs::resolve))
            .route("/v1/dead-letters/{id}/redrive", post(operations::redrive)),
    );
    let decide = plain(Router::new().route(&of("approval"), post(runs::decide)));
    let administer = plain(
        Router::new()
            .route("/v1/config", post(operations::set_config))
            .route("/v1/backup", post(operations::backup)),
    );
    Router::new()
        .route("/healthz", get(operations::healthz))
        .route("/readyz", get(operations::healthz))
        .merge(needing(&api, Role::Viewer, read))
        .merge(needing(&api, Role::Operator, operate))
        .merge(needing(&api, Role::Approver, decide))
        .merge(needing(&api, Role::Admin, administer))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(api)
}
