//! The 13 events that Runtime Cloud emits.

use serde::{Deserialize, Serialize};

use crate::*;

/// The three services of the product; each event has one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Service {
    /// Specifications and provisioning runs.
    IaCProvisioningService,
    /// Pools, quotas, leases.
    ExecutionCapacityService,
    /// Inventory, findings, proposals.
    RuntimeEnvironmentService,
}

impl Service {
    /// The specification's name.
    pub const fn name(self) -> &'static str {
        match self {
            Service::IaCProvisioningService => "IaCProvisioningService",
            Service::ExecutionCapacityService => "ExecutionCapacityService",
            Service::RuntimeEnvironmentService => "RuntimeEnvironmentService",
        }
    }
}

/// What every emitted event knows of itself.
pub trait EventData {
    /// The specification's name.
    const NAME: &'static str;
    /// `context.area.vN.event-name`.
    const TOPIC: &'static str;
    /// Who emits it.
    const PRODUCER: Service;
    /// The aggregate whose row carries it.
    const AGGREGATE: &'static str;
}

macro_rules! events {
    ($($name:ident, $topic:literal, $producer:ident, $aggregate:literal, $subject:expr;)*) => {
        /// Any of the 13.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "event", content = "data")]
        pub enum Event {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name)),*
        }
        $(impl EventData for $name {
            const NAME: &'static str = stringify!($name);
            const TOPIC: &'static str = $topic;
            const PRODUCER: Service = Service::$producer;
            const AGGREGATE: &'static str = $aggregate;
        }
        impl From<$name> for Event {
            fn from(data: $name) -> Event {
                Event::$name(data)
            }
        })*
        impl Event {
            /// Name, topic, producer and aggregate of each event, in the specification's order.
            pub const CATALOGUE: [(&'static str, &'static str, Service, &'static str); 13] =
                [$(($name::NAME, $name::TOPIC, $name::PRODUCER, $name::AGGREGATE)),*];
            /// The specification's name.
            pub const fn name(&self) -> &'static str {
                match self { $(Event::$name(_) => $name::NAME),* }
            }
            /// The topic.
            pub const fn topic(&self) -> &'static str {
                match self { $(Event::$name(_) => $name::TOPIC),* }
            }
            /// Who emits it.
            pub const fn producer(&self) -> Service {
                match self { $(Event::$name(_) => $name::PRODUCER),* }
            }
            /// Whose it is.
            pub const fn tenant(&self) -> &TenantId {
                match self { $(Event::$name(data) => &data.tenant_id),* }
            }
            /// Id of the aggregate that it is about.
            pub fn subject(&self) -> String {
                match self { $(Event::$name(data) => { let subject: fn(&$name) -> String = $subject; subject(data) }),* }
            }
            /// The payload as it goes over the wire.
            pub fn data(&self) -> serde_json::Result<serde_json::Value> {
                match self { $(Event::$name(data) => serde_json::to_value(data)),* }
            }
        }
    };
}

events! {
    SpecificationDeclared, "provisioning.specifications.v1.specification-declared", IaCProvisioningService, "DeploymentSpecification", |e| e.specification_id.to_string();
    ProvisioningPlanned, "provisioning.runs.v1.provisioning-planned", IaCProvisioningService, "ProvisioningRun", |e| e.provisioning_run_id.to_string();
    ProvisioningApplied, "provisioning.runs.v1.provisioning-applied", IaCProvisioningService, "ProvisioningRun", |e| e.provisioning_run_id.to_string();
    ProvisioningFailed, "provisioning.runs.v1.provisioning-failed", IaCProvisioningService, "ProvisioningRun", |e| e.provisioning_run_id.to_string();
    WorkerPoolStateChanged, "capacity.pools.v1.worker-pool-state-changed", ExecutionCapacityService, "WorkerPool", |e| e.pool_id.to_string();
    QuotaChanged, "capacity.quotas.v1.quota-changed", ExecutionCapacityService, "Quota", |e| e.quota_id.to_string();
    QuotaExceeded, "capacity.quotas.v1.quota-exceeded", ExecutionCapacityService, "Quota", |e| e.holder_id.clone();
    CapacityLeaseGranted, "capacity.leases.v1.capacity-lease-granted", ExecutionCapacityService, "CapacityLease", |e| e.lease_id.to_string();
    CapacityLeaseReleased, "capacity.leases.v1.capacity-lease-released", ExecutionCapacityService, "CapacityLease", |e| e.lease_id.to_string();
    ObservedStateChanged, "provisioning.inventory.v1.observed-state-changed", RuntimeEnvironmentService, "RuntimeInventory", |e| e.environment_id.to_string();
    RuntimeDriftDetected, "provisioning.inventory.v1.runtime-drift-detected", RuntimeEnvironmentService, "DriftFinding", |e| e.finding_id.to_string();
    ReconciliationProposed, "provisioning.inventory.v1.reconciliation-proposed", RuntimeEnvironmentService, "ReconciliationProposal", |e| e.proposal_id.to_string();
    ReconciliationDecided, "provisioning.inventory.v1.reconciliation-decided", RuntimeEnvironmentService, "ReconciliationProposal", |e| e.proposal_id.to_string();
}
