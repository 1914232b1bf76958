//! The desired state of one environment or workload: which program at which commit, with which references.
//! It records the version that was acted on and never edits the program.

use chrono::{DateTime, Utc};
use events::{
    ConfigRef, EnvironmentId, Event, Program, ProjectId, ReleaseId, SecretRef, SpecificationDeclared,
    SpecificationId, SpecificationKind, TenantId, is_unshowable,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::{Address, Aggregate, Change, Facets, Key, Kind, Refusal};
use crate::bounds::{TEXT, written};

/// Namespace of the ids that we derive.
pub const NAMESPACE: Uuid = Uuid::from_u128(0x6f1d_2c1e_8a54_5d0b_9a37_51c0_7e0d_c10d);

/// Bytes of the references to configuration, and of those to secrets: a run keeps them with their versions.
const REFS: usize = 32 * 1024;

/// What a version says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its project.
    pub project: ProjectId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// What it describes.
    pub kind: SpecificationKind,
    /// The program at a full commit.
    pub program: Program,
    /// The release that it deploys.
    pub release: Option<ReleaseId>,
    /// How to roll out.
    pub strategy: Option<String>,
    /// Configuration by reference.
    pub config_refs: Vec<ConfigRef>,
    /// Secrets by reference.
    pub secret_refs: Vec<SecretRef>,
}

impl Declaration {
    /// UUIDv5 of tenant, environment, kind and programRef.
    pub fn specification_id(&self) -> SpecificationId {
        let parts = [
            self.tenant.as_str(),
            self.environment.as_str(),
            self.kind.as_str(),
            &self.program.repository,
            &self.program.path,
        ];
        SpecificationId(derived("specification", &parts))
    }
}

/// UUIDv5 over parts that can't run into each other.
pub fn derived(what: &str, parts: &[&str]) -> Uuid {
    let mut name = what.to_owned();
    for part in parts {
        name.push('/');
        name.push_str(&crate::aggregate::encode(part));
    }
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
}

/// One version of a specification: a row of its own, written once and kept. Which version is the newest stands
/// on the environment's slot, which every declaration goes through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentSpecification {
    /// Its id.
    pub id: SpecificationId,
    /// 1 for the first.
    pub version: u32,
    /// What it says.
    pub declaration: Declaration,
    /// When it was declared.
    pub declared_at: DateTime<Utc>,
}

/// The address of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecificationVersion {
    /// Whose it is.
    pub tenant: TenantId,
    /// The specification.
    pub id: SpecificationId,
    /// The version.
    pub version: u32,
}

impl Address for SpecificationVersion {
    fn key(&self, kind: Kind) -> Key {
        Key::new(kind, &[self.tenant.as_str(), &self.id.to_string(), &self.version.to_string()])
    }
}

/// Nothing can be asked of a version: what it says never changes. A change is the next version.
#[derive(Debug, Clone, Copy)]
pub enum SpecificationCommand {}

/// Why it says no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecificationRefusal {
    /// The declaration is about something else.
    #[error(
        "the declaration is of specification {got}, not of {expected}; load the specification that it names"
    )]
    OtherSpecification {
        /// This one.
        expected: SpecificationId,
        /// The declaration's.
        got: SpecificationId,
    },
    /// A key stands twice, so what the program would read is open.
    #[error("configuration key {key:?} is given twice; keep one of them")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A field is empty.
    #[error("{field} is empty; name it")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// What no log and no table shows as it is.
    #[error(
        "{field} {text:?} contains a control character, or one that changes the direction of text; remove it"
    )]
    Unshowable {
        /// The field.
        field: &'static str,
        /// Its text.
        text: String,
    },
    /// Keys of the product can't be set from outside.
    #[error(
        "configuration key {key:?} is reserved: runtimecloud:* is set by Runtime Cloud itself; choose another"
    )]
    ReservedKey {
        /// The key.
        key: String,
    },
    /// The runs of it could not be written down.
    #[error("{field} has {bytes} bytes; at most {limit} are allowed; make it smaller")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        limit: usize,
    },
}

impl Refusal for SpecificationRefusal {
    fn code(&self) -> &'static str {
        match self {
            SpecificationRefusal::OtherSpecification { .. } => "specification-other",
            SpecificationRefusal::DuplicateKey { .. } => "specification-duplicate-key",
            SpecificationRefusal::Empty { .. } => "specification-empty-field",
            SpecificationRefusal::Unshowable { .. } => "specification-unshowable",
            SpecificationRefusal::ReservedKey { .. } => "specification-reserved-key",
            SpecificationRefusal::TooLarge { .. } => "specification-too-large",
        }
    }
}

impl DeploymentSpecification {
    /// The first version.
    pub fn declare(
        declaration: Declaration,
        now: DateTime<Utc>,
    ) -> Result<Change<DeploymentSpecification>, SpecificationRefusal> {
        Self::version(declaration, 1, now)
    }

    /// The next version; None where nothing differs, so the same declaration again is the same version.
    pub fn declare_next(
        &self,
        declaration: Declaration,
        now: DateTime<Utc>,
    ) -> Result<Option<Change<DeploymentSpecification>>, SpecificationRefusal> {
        let got = declaration.specification_id();
        if got != self.id {
            return Err(SpecificationRefusal::OtherSpecification { expected: self.id, got });
        }
        if declaration == self.declaration {
            return Ok(None);
        }
        Self::version(declaration, self.version + 1, now).map(Some)
    }

    /// The version after one whose row is gone: a store restored from a backup knows its number, not what it said.
    pub fn declare_after(
        lost: u32,
        declaration: Declaration,
        now: DateTime<Utc>,
    ) -> Result<Change<DeploymentSpecification>, SpecificationRefusal> {
        Self::version(declaration, lost + 1, now)
    }

    fn version(
        declaration: Declaration,
        version: u32,
        now: DateTime<Utc>,
    ) -> Result<Change<DeploymentSpecification>, SpecificationRefusal> {
        check(
            &declaration.program,
            declaration.strategy.as_deref(),
            &declaration.config_refs,
            &declaration.secret_refs,
        )?;
        let id = declaration.specification_id();
        let declared = SpecificationDeclared {
            specification_id: id,
            tenant_id: declaration.tenant.clone(),
            environment_id: declaration.environment.clone(),
            kind: declaration.kind,
            version,
            program_version: declaration.program.commit.clone(),
        };
        let specification = DeploymentSpecification { id, version, declaration, declared_at: now };
        Ok(Change::created(specification, vec![declared.into()]))
    }
}

/// What every declaration has to keep; an event that can't become one is refused before it is taken in.
pub fn check(
    program: &Program,
    strategy: Option<&str>,
    config_refs: &[ConfigRef],
    secret_refs: &[SecretRef],
) -> Result<(), SpecificationRefusal> {
    if program.repository.trim().is_empty() {
        return Err(SpecificationRefusal::Empty { field: "program.repository" });
    }
    for (field, bytes, limit) in [
        ("program.repository", written(&program.repository), TEXT),
        ("program.path", written(&program.path), TEXT),
        ("strategy", written(&strategy), TEXT),
        ("configRefs", written(&config_refs), REFS),
        ("secretRefs", written(&secret_refs), REFS),
    ] {
        if bytes > limit {
            return Err(SpecificationRefusal::TooLarge { field, bytes, limit });
        }
    }
    showable("program.repository", &program.repository)?;
    showable("program.path", &program.path)?;
    showable("strategy", strategy.unwrap_or_default())?;
    let keys = config_refs.iter().map(|r| (&r.key, &r.reference));
    let keys = keys.chain(secret_refs.iter().map(|r| (&r.key, &r.reference)));
    let mut seen = std::collections::BTreeSet::new();
    for (key, reference) in keys {
        if key.trim().is_empty() {
            return Err(SpecificationRefusal::Empty { field: "key of a configRef or secretRef" });
        }
        if reference.trim().is_empty() {
            return Err(SpecificationRefusal::Empty { field: "ref of a configRef or secretRef" });
        }
        showable("key of a configRef or secretRef", key)?;
        showable("ref of a configRef or secretRef", reference)?;
        if key.starts_with("runtimecloud:") {
            return Err(SpecificationRefusal::ReservedKey { key: key.clone() });
        }
        if !seen.insert(key) {
            return Err(SpecificationRefusal::DuplicateKey { key: key.clone() });
        }
    }
    Ok(())
}

fn showable(field: &'static str, text: &str) -> Result<(), SpecificationRefusal> {
    if is_unshowable(text) {
        return Err(SpecificationRefusal::Unshowable { field, text: text.to_owned() });
    }
    Ok(())
}

impl Aggregate for DeploymentSpecification {
    const KIND: Kind = Kind::DeploymentSpecification;
    type Id = SpecificationVersion;
    type Command = SpecificationCommand;
    type Refusal = SpecificationRefusal;

    fn id(&self) -> SpecificationVersion {
        SpecificationVersion { tenant: self.declaration.tenant.clone(), id: self.id, version: self.version }
    }

    fn facets(&self) -> Facets {
        Facets {
            tenant: self.declaration.tenant.clone(),
            environment: Some(self.declaration.environment.clone()),
            pool: None,
            state: "Declared",
            begun: None,
            due: None,
        }
    }

    fn decide(
        &self,
        command: SpecificationCommand,
        _now: DateTime<Utc>,
    ) -> Result<(Self, Vec<Event>), SpecificationRefusal> {
        match command {}
    }
}
