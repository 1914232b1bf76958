//! What every aggregate shares. A state is changed only by `decide` or a constructor, and only the
//! [`Change`] that they return can be written, so an illegal write doesn't compile.

use std::fmt;
use std::ops::Deref;

use chrono::{DateTime, Utc};
use events::{EnvironmentId, Event, PoolId, TenantId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::digest::Digest;

/// Why a command was refused: a result for a person, not a fault. Display ends with what to do next.
pub trait Refusal: std::error::Error + Send + Sync + 'static {
    /// A stable code for programs.
    fn code(&self) -> &'static str;
}

/// A table. Names are the specification's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Desired states.
    DeploymentSpecification,
    /// Plans and applies.
    ProvisioningRun,
    /// Pools of capacity.
    WorkerPool,
    /// Limits.
    Quota,
    /// Grants of capacity.
    CapacityLease,
    /// Observed states.
    RuntimeInventory,
    /// Observed workloads.
    ObservedWorkload,
    /// Differences.
    DriftFinding,
    /// Reviewable changes.
    ReconciliationProposal,
    /// Who owns an environment, and its class.
    Environment,
    /// What runs in an environment, and the heads of its state and its chain.
    EnvironmentSlot,
    /// Places in the queue for capacity.
    LeaseRequest,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 12] = [
        Kind::DeploymentSpecification,
        Kind::ProvisioningRun,
        Kind::WorkerPool,
        Kind::Quota,
        Kind::CapacityLease,
        Kind::RuntimeInventory,
        Kind::ObservedWorkload,
        Kind::DriftFinding,
        Kind::ReconciliationProposal,
        Kind::Environment,
        Kind::EnvironmentSlot,
        Kind::LeaseRequest,
    ];

    /// The table's name.
    pub const fn table(self) -> &'static str {
        match self {
            Kind::DeploymentSpecification => "DeploymentSpecifications",
            Kind::ProvisioningRun => "ProvisioningRuns",
            Kind::WorkerPool => "WorkerPools",
            Kind::Quota => "Quotas",
            Kind::CapacityLease => "CapacityLeases",
            Kind::RuntimeInventory => "RuntimeInventories",
            Kind::ObservedWorkload => "ObservedWorkloads",
            Kind::DriftFinding => "DriftFindings",
            Kind::ReconciliationProposal => "ReconciliationProposals",
            Kind::Environment => "Environments",
            Kind::EnvironmentSlot => "EnvironmentSlots",
            Kind::LeaseRequest => "LeaseRequests",
        }
    }
}

/// A row's address. Keys are never reused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The table.
    pub kind: Kind,
    /// The address in it; each part is percent-encoded, so no two ids share one.
    pub text: String,
}

impl Key {
    /// Joins parts into an address.
    pub fn new(kind: Kind, parts: &[&str]) -> Key {
        Key { kind, text: parts.iter().map(|p| encode(p)).collect::<Vec<_>>().join("/") }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.table(), self.text)
    }
}

/// Percent-encodes everything but letters, digits, `_` and `-`: injective, and safe as a file name, a key and
/// a stack name. `.` is encoded too, so no part can be `..`.
pub fn encode(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The file name of a percent-encoded part. A file name holds 255 bytes; a longer part is named by its beginning and
/// its digest. No encoded part has a dot, so the two kinds never meet.
pub fn file_name(part: &str) -> String {
    if part.len() <= 200 {
        return part.to_owned();
    }
    format!("{}.{}", part.get(..100).unwrap_or_default(), Digest::of(part.as_bytes()))
}

/// An id within its tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
pub struct Scoped<T> {
    /// Whose it is.
    pub tenant: TenantId,
    /// The id.
    pub id: T,
}

impl<T> Scoped<T> {
    /// An id of a tenant.
    pub fn new(tenant: TenantId, id: T) -> Self {
        Scoped { tenant, id }
    }
}

/// An id that can address a row.
pub trait Address {
    /// The row's key in the table of `kind`.
    fn key(&self, kind: Kind) -> Key;
}

impl<T: fmt::Display> Address for Scoped<T> {
    fn key(&self, kind: Kind) -> Key {
        Key::new(kind, &[self.tenant.as_str(), &self.id.to_string()])
    }
}

impl Address for EnvironmentId {
    fn key(&self, kind: Kind) -> Key {
        Key::new(kind, &[self.as_str()])
    }
}

/// How often a row was written; 1 after its first write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// The version that a write replacing `before` makes.
    pub const fn after(before: Option<Version>) -> Version {
        match before {
            Some(Version(n)) => Version(n + 1),
            None => Version(1),
        }
    }
}

/// Whose a state is and what it may be found by. Indexes and log spans read this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facets {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its environment.
    pub environment: Option<EnvironmentId>,
    /// Its pool.
    pub pool: Option<PoolId>,
    /// Its state's name.
    pub state: &'static str,
    /// When it began, if it is listed by that: the newest first.
    pub begun: Option<DateTime<Utc>>,
    /// When somebody has to look at it again.
    pub due: Option<DateTime<Utc>>,
}

/// A state, its commands and its refusals.
pub trait Aggregate: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its table.
    const KIND: Kind;
    /// Its identity.
    type Id: Address + Clone + fmt::Debug + Send + Sync;
    /// What can be asked of it.
    type Command: Send;
    /// Why it says no.
    type Refusal: Refusal;
    /// Its identity.
    fn id(&self) -> Self::Id;
    /// Its facets.
    fn facets(&self) -> Facets;
    /// The next state and the events that leave with it, or a refusal. Pure.
    fn decide(&self, command: Self::Command, now: DateTime<Utc>)
    -> Result<(Self, Vec<Event>), Self::Refusal>;
}

/// A state as the store holds it. Only the store makes one, from a row that it has just read.
#[derive(Debug, Clone)]
pub struct Versioned<A> {
    version: Version,
    state: A,
}

impl<A: Aggregate> Versioned<A> {
    /// For the store alone: a state read from its row.
    pub fn loaded(version: Version, state: A) -> Self {
        Versioned { version, state }
    }
    /// The row's version.
    pub const fn version(&self) -> Version {
        self.version
    }
    /// The row's key.
    pub fn key(&self) -> Key {
        self.state.id().key(A::KIND)
    }
    /// A change that changes nothing yet: for commands that follow with [`Change::then`].
    pub fn begin(&self) -> Change<A> {
        Change { before: Some(self.version), after: self.state.clone(), events: vec![] }
    }
    /// Decides on what was read; the change can be written only if nobody wrote in between.
    pub fn decide(&self, command: A::Command, now: DateTime<Utc>) -> Result<Change<A>, A::Refusal> {
        let (after, events) = self.state.decide(command, now)?;
        Ok(Change { before: Some(self.version), after, events })
    }
}

impl<A> Deref for Versioned<A> {
    type Target = A;
    fn deref(&self) -> &A {
        &self.state
    }
}

/// A decided change: what can be written.
#[derive(Debug, Clone)]
pub struct Change<A> {
    before: Option<Version>,
    after: A,
    events: Vec<Event>,
}

impl<A: Aggregate> Change<A> {
    pub(crate) fn created(after: A, events: Vec<Event>) -> Self {
        Change { before: None, after, events }
    }
    /// A further command in the same write.
    pub fn then(self, command: A::Command, now: DateTime<Utc>) -> Result<Self, A::Refusal> {
        let (after, more) = self.after.decide(command, now)?;
        let mut events = self.events;
        events.extend(more);
        Ok(Change { before: self.before, after, events })
    }
    /// The version that it replaces; None where the row must not exist.
    pub const fn before(&self) -> Option<Version> {
        self.before
    }
    /// The state that it makes.
    pub const fn after(&self) -> &A {
        &self.after
    }
    /// The events that leave with it.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}
