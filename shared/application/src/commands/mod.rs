//! What people and neighbours can ask for.

pub mod cancel_provisioning;
pub mod plan_provisioning;
pub mod recover;

pub use cancel_provisioning::CancelProvisioning;
pub use plan_provisioning::PlanProvisioning;
pub use recover::Recover;
