//! Real states and commits for cases to write.

use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use domain::aggregate::Scoped;
use domain::deployment_specification::Declaration;
use domain::environment_slot::SlotCommand;
use domain::provisioning_run::{NewRun, RunSource};
use domain::{Change, DeploymentSpecification, EnvironmentSlot, ProvisioningRun};
use events::{
    CommitHash, EnvironmentId, Principal, Program, ProjectId, ProvisioningRunId, SpecificationId,
    SpecificationKind, TenantId,
};
use ports::Cx;
use uuid::Uuid;

/// Makes samples; each call of `cx` is another message.
#[derive(Default)]
pub struct Sample {
    messages: AtomicU64,
}

impl Sample {
    /// A fixed time.
    pub fn now() -> DateTime<Utc> {
        Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
    }

    /// The context of another message.
    pub fn cx(&self) -> Cx {
        Sample::cx_of(self.messages.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The context of one message.
    pub fn cx_of(message: u64) -> Cx {
        Cx {
            message: Uuid::from_u128(0xc0_0000 + u128::from(message)),
            correlation: format!("work-{message}"),
            trace: None,
            now: Sample::now(),
            attempt: 1,
            deadline: Sample::now() + TimeDelta::minutes(1),
        }
    }

    /// A tenant.
    pub fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    /// The id of a slot.
    pub fn slot_id(tenant: &str, environment: &str) -> Scoped<EnvironmentId> {
        Scoped::new(Sample::tenant(tenant), EnvironmentId::new(environment).unwrap())
    }

    /// A new slot: a row without letters.
    pub fn slot(tenant: &str, environment: &str) -> Change<EnvironmentSlot> {
        EnvironmentSlot::open(Sample::tenant(tenant), EnvironmentId::new(environment).unwrap())
    }

    /// Something that changes a slot each time.
    pub const fn step() -> SlotCommand {
        SlotCommand::RaiseEpoch
    }

    /// A program.
    pub fn program() -> Program {
        Program {
            repository: "https://git.example/shop.git".to_owned(),
            path: ".".to_owned(),
            commit: CommitHash::new("a".repeat(40)).unwrap(),
        }
    }

    /// A new specification: a row with one event.
    pub fn specification(tenant: &str, environment: &str) -> Change<DeploymentSpecification> {
        let declaration = Declaration {
            tenant: Sample::tenant(tenant),
            project: ProjectId::new("shop").unwrap(),
            environment: EnvironmentId::new(environment).unwrap(),
            kind: SpecificationKind::Workload,
            program: Sample::program(),
            release: None,
            strategy: None,
            config_refs: vec![],
            secret_refs: vec![],
        };
        DeploymentSpecification::declare(declaration, Sample::now()).unwrap()
    }

    /// A new run that somebody has to look at at `due`.
    pub fn run(tenant: &str, environment: &str, number: u32, due: DateTime<Utc>) -> Change<ProvisioningRun> {
        ProvisioningRun::declare(Sample::new_run(tenant, environment, number), due, Sample::now())
    }

    /// A new run that begins at a time.
    pub fn run_begun(
        tenant: &str,
        environment: &str,
        number: u32,
        at: DateTime<Utc>,
    ) -> Change<ProvisioningRun> {
        ProvisioningRun::declare(Sample::new_run(tenant, environment, number), at, at)
    }

    /// The id of a run.
    pub const fn run_id(number: u32) -> ProvisioningRunId {
        ProvisioningRunId(Uuid::from_u128(number as u128 + 1))
    }

    fn new_run(tenant: &str, environment: &str, number: u32) -> NewRun {
        NewRun {
            id: Sample::run_id(number),
            tenant: Sample::tenant(tenant),
            project: ProjectId::new("shop").unwrap(),
            environment: EnvironmentId::new(environment).unwrap(),
            specification: SpecificationId(Uuid::from_u128(7)),
            specification_version: 1,
            program: Sample::program(),
            release: None,
            source: RunSource::Manual,
            requested_by: Principal::new("ada").unwrap(),
            rerun_of: None,
            chain: None,
        }
    }
}
