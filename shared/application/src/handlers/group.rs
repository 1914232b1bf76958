//! The concurrency group of inbound events.

use events::{Envelope, EnvironmentId, TenantId};

/// The concurrency group of an inbound event: its environment as the event names it.
pub(crate) fn environment_group(envelope: &Envelope) -> String {
    let field = |name: &str| envelope.data.get(name).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    match (TenantId::new(field("tenantId")), EnvironmentId::new(field("environmentId"))) {
        (Ok(tenant), Ok(environment)) => crate::turns::group(&tenant, &environment),
        (_, _) => envelope.id.clone(),
    }
}
