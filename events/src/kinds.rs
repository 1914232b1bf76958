//! Enums whose values the specification names or leaves open. States are written in PascalCase, as the
//! specification writes them; every other enum is kebab-case.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! open_enum {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant),+
        }
        impl $name {
            /// Every value, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The text on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl FromStr for $name {
            type Err = UnknownValue;
            fn from_str(text: &str) -> Result<Self, UnknownValue> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or_else(|| UnknownValue {
                    what: stringify!($name),
                    text: text.to_owned(),
                    allowed: Self::ALL.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    )*};
}

/// A text that names no value of an enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}; use one of {allowed}")]
pub struct UnknownValue {
    /// The enum.
    pub what: &'static str,
    /// What came.
    pub text: String,
    /// What may come.
    pub allowed: String,
}

open_enum! {
    /// What a specification describes.
    SpecificationKind {
        /// What a new environment starts with.
        EnvironmentBaseline = "environment-baseline",
        /// A released program.
        Workload = "workload",
        /// Nodes of a worker pool.
        WorkerPool = "worker-pool",
    }
    /// Why a run exists.
    ProvisioningKind {
        /// A promotion handed over its desired state.
        Promotion = "promotion",
        /// A new environment gets its baseline.
        Baseline = "baseline",
        /// Declared state is brought back.
        Reconciliation = "reconciliation",
        /// A pool changes its size.
        PoolResize = "pool-resize",
        /// A person asked for a plan.
        Manual = "manual",
    }
    /// States of a provisioning run.
    ProvisioningState {
        /// Declared and queued; the plan is pending or recorded.
        Planned = "Planned",
        /// A person has to decide.
        AwaitingApproval = "AwaitingApproval",
        /// Pulumi may be changing resources.
        Applying = "Applying",
        /// Ended: applied, outputs recorded.
        Applied = "Applied",
        /// Ended: the plan or the apply failed.
        Failed = "Failed",
        /// Ended: the approval was refused or expired.
        Rejected = "Rejected",
        /// Ended before any apply.
        Cancelled = "Cancelled",
    }
    /// How strictly changes to an environment are governed.
    EnvironmentClass {
        /// A developer's own.
        Development = "development",
        /// Automated tests.
        Test = "test",
        /// A rehearsal of production.
        Staging = "staging",
        /// Customers depend on it.
        Production = "production",
    }
    /// Where an environment's resources live.
    TargetKind {
        /// Processes and files of the host's own machine.
        Local = "local",
        /// A Kubernetes cluster.
        Kubernetes = "kubernetes",
        /// An AWS account.
        Aws = "aws",
    }
    /// What runs on a pool.
    PoolKind {
        /// Agent runtimes.
        Agent = "agent",
        /// Tool sandboxes.
        Sandbox = "sandbox",
        /// Builds.
        Build = "build",
        /// Browser sessions.
        Browser = "browser",
    }
    /// States of a worker pool.
    PoolState {
        /// Its nodes are being made.
        Provisioning = "provisioning",
        /// It grants leases.
        Active = "active",
        /// Its size is being changed.
        Resizing = "resizing",
        /// It grants no more leases.
        Draining = "draining",
        /// It is switched off.
        Suspended = "suspended",
    }
    /// Who may share a pool.
    SecurityBoundary {
        /// Several tenants.
        Shared = "shared",
        /// One tenant.
        TenantDedicated = "tenant-dedicated",
        /// One tenant, on its own machines.
        CustomerHosted = "customer-hosted",
    }
    /// What holds a lease.
    HolderKind {
        /// An attempt of Run Control.
        Attempt = "attempt",
        /// A tool sandbox.
        Sandbox = "sandbox",
        /// A build.
        Build = "build",
        /// A browser session.
        Browser = "browser",
    }
    /// States of a capacity lease.
    LeaseState {
        /// Asked for.
        Requested = "Requested",
        /// Granted, not started.
        Granted = "Granted",
        /// In use.
        Active = "Active",
        /// Given back.
        Released = "Released",
        /// Its time ran out.
        Expired = "Expired",
        /// A limit was in the way.
        Denied = "Denied",
    }
    /// How declared and observed differ.
    DriftKind {
        /// Declared, not there.
        MissingResource = "missing-resource",
        /// There, not declared.
        UnexpectedResource = "unexpected-resource",
        /// Another version runs.
        VersionMismatch = "version-mismatch",
        /// Another number of replicas.
        ReplicaMismatch = "replica-mismatch",
        /// Another configuration.
        ConfigurationMismatch = "configuration-mismatch",
        /// Another secret reference.
        SecretBindingMismatch = "secret-binding-mismatch",
        /// Another property.
        PropertyMismatch = "property-mismatch",
    }
    /// States of a reconciliation proposal.
    ProposalState {
        /// A person has to decide.
        Proposed = "Proposed",
        /// Accepted; a run was planned.
        Accepted = "Accepted",
        /// Refused.
        Rejected = "Rejected",
        /// Its run was applied.
        Applied = "Applied",
        /// A newer one took its place.
        Superseded = "Superseded",
    }
    /// Which side of a difference wins.
    Direction {
        /// Bring the resources back to what is declared.
        ApplyDeclared = "apply-declared",
        /// Declare what is observed.
        AdoptObserved = "adopt-observed",
    }
}
