//! The handlers of inbound events.

pub mod admission;
pub mod apply_approval;
mod group;
pub mod provision_baseline;
pub mod provision_promotion;

pub use admission::admit;
pub use apply_approval::ApplyApproval;
pub use provision_baseline::ProvisionBaseline;
pub use provision_promotion::ProvisionPromotion;
