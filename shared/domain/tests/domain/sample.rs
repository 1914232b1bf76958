//! States and commands to begin with.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use domain::Digest;
use domain::plan::BoundInputs;
use domain::provisioning_run::{
    ApplyRecord, NewRun, PlanApproval, PlanRecord, ProvisioningRun, RunCommand, RunSource, Token,
};
use domain::receipt::{ChainLink, ReceiptKind};
use domain::routing::{Authority, Route};
use events::{
    ApprovalId, CommitHash, EnvironmentClass, EnvironmentId, PlanSummary, Principal, Program, ProjectId,
    PromotionApproval, PromotionId, ProvisioningKind, ProvisioningRunId, ReleaseId, SpecificationId,
    TenantId,
};
use uuid::Uuid;

pub fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap()
}

pub fn after(minutes: i64) -> DateTime<Utc> {
    now() + TimeDelta::minutes(minutes)
}

pub fn principal(name: &str) -> Principal {
    Principal::new(name).unwrap()
}

pub fn run_id(number: u128) -> ProvisioningRunId {
    ProvisioningRunId(Uuid::from_u128(number))
}

pub fn release() -> ReleaseId {
    ReleaseId(Uuid::from_u128(0x4e))
}

pub fn program() -> Program {
    Program {
        repository: "https://git.example/shop.git".to_owned(),
        path: "deploy".to_owned(),
        commit: CommitHash::new("a".repeat(40)).unwrap(),
    }
}

/// The source of a run; a promotion's approval runs out after two hours.
pub fn source(kind: ProvisioningKind) -> RunSource {
    match kind {
        ProvisioningKind::Promotion => RunSource::Promotion {
            promotion: PromotionId(Uuid::from_u128(0x50)),
            approval: PromotionApproval {
                approval_id: ApprovalId(Uuid::from_u128(0xa0)),
                decided_by: principal("ada"),
                decided_at: now(),
                expires_at: Some(after(120)),
            },
        },
        ProvisioningKind::Baseline => RunSource::Baseline,
        ProvisioningKind::Reconciliation => RunSource::Reconciliation,
        ProvisioningKind::PoolResize => RunSource::PoolResize,
        ProvisioningKind::Manual => RunSource::Manual,
    }
}

/// A new run, asked for by Ada.
pub fn run(kind: ProvisioningKind) -> ProvisioningRun {
    let new = NewRun {
        id: run_id(1),
        tenant: TenantId::new("acme").unwrap(),
        project: ProjectId::new("shop").unwrap(),
        environment: EnvironmentId::new("e1").unwrap(),
        specification: SpecificationId(Uuid::from_u128(2)),
        specification_version: 3,
        program: program(),
        release: Some(release()),
        source: source(kind),
        requested_by: principal("ada"),
        rerun_of: None,
        chain: None,
    };
    ProvisioningRun::declare(new, after(1), now()).after().clone()
}

pub fn digest(number: u8) -> Digest {
    Digest::of(&[number])
}

pub fn inputs(class: EnvironmentClass) -> BoundInputs {
    BoundInputs {
        repository: program().repository,
        path: program().path,
        commit: program().commit,
        release: Some(release()),
        strategy: None,
        config: vec![],
        secrets: vec![],
        class,
        identity: None,
        tools: BTreeMap::new(),
    }
}

pub fn summary(deletes: u32, replaces: u32, protected: u32) -> PlanSummary {
    PlanSummary {
        adds: 1,
        changes: 1,
        deletes,
        replaces,
        unchanged: 1,
        protected,
        digest: digest(1).to_string(),
        approval_required: None,
    }
}

/// A plan; its digest is that of `number`.
pub fn plan(number: u8, inputs: BoundInputs, summary: PlanSummary) -> PlanRecord {
    PlanRecord {
        link: ChainLink {
            epoch: 1,
            sequence: 1,
            previous: None,
            run: run_id(1),
            kind: ReceiptKind::Plan,
            receipt: digest(90),
        },
        summary,
        plan_digest: digest(number),
        steps_digest: digest(91),
        inputs_hash: inputs.hash().unwrap(),
        inputs,
        state_head: None,
        stack_config: digest(92),
        at: now(),
    }
}

pub fn record(plan: PlanRecord, route: Route) -> RunCommand {
    RunCommand::RecordPlan { plan: Box::new(plan), route, expires_at: after(60), logs: None }
}

pub fn by_policy() -> Authority {
    Authority::Policy { policies: vec!["a-policy".to_owned()] }
}

pub fn token(sequence: u64) -> Token {
    Token { epoch: 1, sequence }
}

pub fn approval(by: &str, number: u8) -> PlanApproval {
    PlanApproval {
        approval: ApprovalId(Uuid::from_u128(0xa1)),
        by: principal(by),
        at: now(),
        expires_at: None,
        plan_digest: digest(number),
    }
}

pub fn apply(outputs: serde_json::Value) -> ApplyRecord {
    let link = ChainLink {
        epoch: 1,
        sequence: 2,
        previous: None,
        run: run_id(1),
        kind: ReceiptKind::Apply,
        receipt: digest(93),
    };
    ApplyRecord { link, state: Some(digest(94)), outputs }
}
