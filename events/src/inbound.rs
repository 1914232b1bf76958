//! The five events that Runtime Cloud takes in.

use crate::*;

/// What every inbound event knows of itself.
pub trait InboundData: serde::de::DeserializeOwned {
    /// The specification's name.
    const NAME: &'static str;
    /// The topic that we take it from; a mapping adapts other producers.
    const TOPIC: &'static str;
    /// Who emits it.
    const PRODUCER: &'static str;
    /// Whose it claims to be; the stored environment decides.
    fn tenant(&self) -> &TenantId;
}

macro_rules! inbound {
    ($($name:ident, $topic:literal, $producer:literal;)*) => {
        /// Any of the five.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Inbound {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name)),*
        }
        $(impl InboundData for $name {
            const NAME: &'static str = stringify!($name);
            const TOPIC: &'static str = $topic;
            const PRODUCER: &'static str = $producer;
            fn tenant(&self) -> &TenantId {
                &self.tenant_id
            }
        })*
        impl Inbound {
            /// Name, topic and producer of each.
            pub const CATALOGUE: [(&'static str, &'static str, &'static str); 5] =
                [$(($name::NAME, $name::TOPIC, $name::PRODUCER)),*];
            /// Reads the event that an envelope carries; a missing or wrong field is refused by its path.
            pub fn read(envelope: &Envelope) -> Result<Inbound, EnvelopeError> {
                match envelope.topic.as_str() {
                    $($topic => envelope.read::<$name>().map(Inbound::$name),)*
                    other => Err(EnvelopeError::UnknownTopic { topic: other.to_owned() }),
                }
            }
            /// The specification's name.
            pub const fn name(&self) -> &'static str {
                match self { $(Inbound::$name(_) => $name::NAME),* }
            }
            /// Whose it claims to be.
            pub fn tenant(&self) -> &TenantId {
                match self { $(Inbound::$name(data) => data.tenant()),* }
            }
        }
    };
}

inbound! {
    PromotionApproved, "delivery.promotions.v1.promotion-approved", "EnvironmentPromotionService";
    EnvironmentCreated, "control.environments.v1.environment-created", "EnvironmentService";
    ApprovalDecided, "control.approvals.v1.approval-decided", "RunControlService";
    AttemptOutcomeRecorded, "runs.attempts.v1.attempt-outcome-recorded", "RunControlService";
    SandboxReleased, "tools.sandboxes.v1.sandbox-released", "ToolAdapterService";
}

/// Whether a principal bears the name of a service of the platform: whoever doesn't is a person. Who may bear such a
/// name is for identity to decide, at the edge.
pub fn is_service(principal: &Principal) -> bool {
    let name = principal.as_str();
    let ours = [
        Service::IaCProvisioningService,
        Service::ExecutionCapacityService,
        Service::RuntimeEnvironmentService,
    ];
    ours.iter().any(|s| s.name() == name)
        || Inbound::CATALOGUE.iter().any(|(_, _, producer)| *producer == name)
}
