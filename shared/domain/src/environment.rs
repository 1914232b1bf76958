//! An environment as the control plane created it: who owns it, how strictly it is governed, where it lives.

use chrono::{DateTime, Utc};
use events::{
    EnvironmentClass, EnvironmentCreated, EnvironmentId, Event, ProjectId, Target, TargetKind, TenantId,
};
use serde::{Deserialize, Serialize};

use crate::aggregate::{Aggregate, Change, Facets, Kind, Refusal};

/// The state. Its key is the environment's id alone: the row says which tenant owns the id, and every other key
/// of the environment starts with that tenant (Rule 24).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Its id.
    pub id: EnvironmentId,
    /// Who owns it.
    pub tenant: TenantId,
    /// Its project.
    pub project: ProjectId,
    /// How strictly it is governed.
    pub class: EnvironmentClass,
    /// Where it is.
    pub region: String,
    /// Where its resources live.
    pub targets: Vec<Target>,
    /// The short-lived identity that runs use.
    pub identity_ref: Option<String>,
    /// When the control plane created it.
    pub created_at: DateTime<Utc>,
    /// When the control plane said what stands here: what it said before that comes too late (Rule 9).
    #[serde(default)]
    pub described_at: DateTime<Utc>,
}

/// What can be asked of it.
#[derive(Debug, Clone)]
pub enum EnvironmentCommand {
    /// The control plane says what it is, again; said then.
    Describe(Box<EnvironmentCreated>, DateTime<Utc>),
}

/// Why it says no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentRefusal {
    /// Another tenant owns the id.
    #[error(
        "environment {environment} belongs to another tenant than {claimed}; use the id of one of your own environments"
    )]
    ForeignTenant {
        /// The environment.
        environment: EnvironmentId,
        /// Who claimed it.
        claimed: TenantId,
    },
    /// A class can't change under runs that were approved for another one.
    #[error(
        "environment {environment} is of class {stored} and can't become {claimed}; create a new environment of that class"
    )]
    ClassChanged {
        /// The environment.
        environment: EnvironmentId,
        /// Its class.
        stored: EnvironmentClass,
        /// What came.
        claimed: EnvironmentClass,
    },
}

impl Refusal for EnvironmentRefusal {
    fn code(&self) -> &'static str {
        match self {
            EnvironmentRefusal::ForeignTenant { .. } => "environment-foreign-tenant",
            EnvironmentRefusal::ClassChanged { .. } => "environment-class-changed",
        }
    }
}

impl Environment {
    /// A new one, told of at a time.
    pub fn create(
        event: &EnvironmentCreated,
        told: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Change<Environment> {
        Change::created(Environment::described(event, told.min(now), now), vec![])
    }

    fn described(
        event: &EnvironmentCreated,
        described_at: DateTime<Utc>,
        created_at: DateTime<Utc>,
    ) -> Environment {
        Environment {
            id: event.environment_id.clone(),
            tenant: event.tenant_id.clone(),
            project: event.project_id.clone(),
            class: event.class,
            region: event.region.clone(),
            targets: event.targets.clone(),
            identity_ref: event.identity_ref.clone(),
            created_at,
            described_at,
        }
    }

    /// Refuses who doesn't own it.
    pub fn owned_by(&self, tenant: &TenantId) -> Result<(), EnvironmentRefusal> {
        if self.tenant == *tenant {
            return Ok(());
        }
        Err(EnvironmentRefusal::ForeignTenant { environment: self.id.clone(), claimed: tenant.clone() })
    }

    /// Whether it has a target of a kind.
    pub fn has_target(&self, kind: TargetKind) -> bool {
        self.targets.iter().any(|t| t.kind == kind)
    }
}

impl Aggregate for Environment {
    const KIND: Kind = Kind::Environment;
    type Id = EnvironmentId;
    type Command = EnvironmentCommand;
    type Refusal = EnvironmentRefusal;

    fn id(&self) -> EnvironmentId {
        self.id.clone()
    }

    fn facets(&self) -> Facets {
        Facets {
            tenant: self.tenant.clone(),
            environment: Some(self.id.clone()),
            pool: None,
            state: self.class.as_str(),
            begun: None,
            due: None,
        }
    }

    fn decide(
        &self,
        command: EnvironmentCommand,
        now: DateTime<Utc>,
    ) -> Result<(Self, Vec<Event>), EnvironmentRefusal> {
        let EnvironmentCommand::Describe(event, told) = command;
        self.owned_by(&event.tenant_id)?;
        if self.class != event.class {
            return Err(EnvironmentRefusal::ClassChanged {
                environment: self.id.clone(),
                stored: self.class,
                claimed: event.class,
            });
        }
        if told < self.described_at {
            return Ok((self.clone(), vec![]));
        }
        Ok((Environment::described(&event, told.min(now), self.created_at), vec![]))
    }
}
