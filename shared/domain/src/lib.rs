//! The pure heart: aggregates as states plus `decide`, routing, invariants. No clock, no IO, no async.

pub mod aggregate;
pub mod bounds;
pub mod decided_at;
pub mod deployment_specification;
pub mod digest;
pub mod environment;
pub mod environment_slot;
pub mod identity;
pub mod invariants;
pub mod plan;
pub mod provisioning_run;
pub mod receipt;
pub mod routing;

pub use aggregate::{Aggregate, Change, Facets, Key, Kind, Refusal, Scoped, Version, Versioned};
pub use deployment_specification::DeploymentSpecification;
pub use digest::Digest;
pub use environment::Environment;
pub use environment_slot::EnvironmentSlot;
pub use provisioning_run::ProvisioningRun;
