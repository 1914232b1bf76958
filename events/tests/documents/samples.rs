//! One sample of each event, and its schema.

use chrono::{DateTime, TimeZone, Utc};
use runtime_cloud_events::*;
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

/// What the tests know of an event.
pub struct Sample {
    /// The specification's name.
    pub name: &'static str,
    /// Its topic.
    pub topic: &'static str,
    /// As it goes over the wire.
    pub envelope: Envelope,
    /// Of its payload.
    pub schema: Schema,
    /// Reads a payload; the error names the field.
    pub read: fn(&Envelope) -> Result<Value, String>,
}

impl Sample {
    /// The name of its files.
    pub fn file(&self) -> String {
        format!("{}.json", self.topic.rsplit('.').next().unwrap())
    }
}

fn at(hour: u32) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, hour, 30, 0).unwrap()
}

/// A guid that reads like a sample.
fn guid(number: u16) -> Uuid {
    Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0000 + u128::from(number))
}

fn commit() -> CommitHash {
    CommitHash::new("4b825dc642cb6eb9a060e54bf8d69288fbee4904").unwrap()
}

fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}
fn project() -> ProjectId {
    ProjectId::new("shop").unwrap()
}
fn environment() -> EnvironmentId {
    EnvironmentId::new("shop-staging").unwrap()
}
fn pool() -> PoolId {
    PoolId::new("agents-eu").unwrap()
}
fn person(name: &str) -> Principal {
    Principal::new(name).unwrap()
}

fn read<T: DeserializeOwned + serde::Serialize>(envelope: &Envelope) -> Result<Value, String> {
    let data: T = serde_json::from_value(envelope.data.clone()).map_err(|e| e.to_string())?;
    serde_json::to_value(data).map_err(|e| e.to_string())
}

fn emitted<T>(data: T) -> Sample
where
    T: EventData + JsonSchema + DeserializeOwned + serde::Serialize + Into<Event>,
{
    let (correlation, causation) = (Some(guid(900).to_string()), Some(guid(901).to_string()));
    let envelope =
        Envelope::of(&data.into(), EventId(guid(999)), at(14), correlation, causation, None).unwrap();
    Sample { name: T::NAME, topic: T::TOPIC, envelope, schema: schema_for!(T), read: read::<T> }
}

fn inbound<T>(data: &T, subject: String) -> Sample
where
    T: InboundData + JsonSchema + serde::Serialize,
{
    let envelope = Envelope {
        specversion: "1.0".to_owned(),
        id: guid(998).to_string(),
        source: format!("/{}", T::PRODUCER),
        topic: T::TOPIC.to_owned(),
        subject: Some(subject),
        time: at(9),
        datacontenttype: "application/json".to_owned(),
        tenantid: Some(tenant()),
        correlationid: Some(guid(900).to_string()),
        causationid: None,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        data: serde_json::to_value(data).unwrap(),
    };
    let read = |envelope: &Envelope| {
        let data: T = envelope.read().map_err(|e| e.to_string())?;
        serde_json::to_value(data).map_err(|e| e.to_string())
    };
    Sample { name: T::NAME, topic: T::TOPIC, envelope, schema: schema_for!(T), read }
}

fn program() -> Program {
    Program {
        repository: "https://git.example/acme/shop.git".to_owned(),
        path: "deploy".to_owned(),
        commit: commit(),
    }
}

fn summary() -> PlanSummary {
    PlanSummary {
        adds: 2,
        changes: 1,
        deletes: 0,
        replaces: 1,
        unchanged: 11,
        protected: 0,
        digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        approval_required: Some(ApprovalRequired {
            reason: "no policy allows this plan".to_owned(),
            expires_at: at(20),
        }),
    }
}

fn refs() -> (Vec<ConfigRef>, Vec<SecretRef>) {
    let config = ConfigRef { key: "shop:host".to_owned(), reference: "staging/db-host".to_owned() };
    let secret = SecretRef { key: "shop:password".to_owned(), reference: "staging/db-password".to_owned() };
    (vec![config], vec![secret])
}

/// The 13 that Runtime Cloud emits, in the specification's order.
pub fn thirteen() -> Vec<Sample> {
    let run = ProvisioningRunId(guid(1));
    let promotion = Some(PromotionId(guid(2)));
    let outputs = serde_json::json!({ "url": "https://shop.example", "password": "[secret]" });
    let changes = serde_json::json!([{ "workload": "web", "replicas": { "from": 2, "to": 3 } }]);
    vec![
        emitted(SpecificationDeclared {
            specification_id: SpecificationId(guid(3)),
            tenant_id: tenant(),
            environment_id: environment(),
            kind: SpecificationKind::Workload,
            version: 4,
            program_version: commit(),
        }),
        emitted(ProvisioningPlanned {
            provisioning_run_id: run,
            tenant_id: tenant(),
            environment_id: environment(),
            kind: ProvisioningKind::Promotion,
            promotion_id: promotion,
            plan_summary: summary(),
        }),
        emitted(ProvisioningApplied {
            provisioning_run_id: run,
            tenant_id: tenant(),
            project_id: project(),
            environment_id: environment(),
            kind: ProvisioningKind::Promotion,
            promotion_id: promotion,
            specification_version: 4,
            outputs,
        }),
        emitted(ProvisioningFailed {
            provisioning_run_id: run,
            tenant_id: tenant(),
            environment_id: environment(),
            kind: ProvisioningKind::Promotion,
            promotion_id: promotion,
            reason: "apply-failed: the bucket name is taken; choose another and promote again".to_owned(),
        }),
        emitted(WorkerPoolStateChanged {
            pool_id: pool(),
            tenant_id: tenant(),
            kind: PoolKind::Agent,
            from_state: PoolState::Active,
            to_state: PoolState::Resizing,
            current_size: 3,
        }),
        emitted(QuotaChanged {
            quota_id: QuotaId(guid(4)),
            tenant_id: tenant(),
            project_id: Some(project()),
            concurrent_runs: 20,
            concurrent_sandboxes: 10,
        }),
        emitted(QuotaExceeded {
            tenant_id: tenant(),
            project_id: project(),
            holder_kind: HolderKind::Attempt,
            holder_id: guid(5).to_string(),
            limit: "concurrentRuns 20/20".to_owned(),
        }),
        emitted(CapacityLeaseGranted {
            lease_id: LeaseId(guid(6)),
            tenant_id: tenant(),
            holder_kind: HolderKind::Attempt,
            holder_id: guid(5).to_string(),
            pool_id: pool(),
            expires_at: at(15),
        }),
        emitted(CapacityLeaseReleased {
            lease_id: LeaseId(guid(6)),
            tenant_id: tenant(),
            holder_kind: HolderKind::Attempt,
            holder_id: guid(5).to_string(),
            pool_id: pool(),
            state: LeaseState::Released,
            execution_seconds: 412,
        }),
        emitted(ObservedStateChanged {
            environment_id: environment(),
            tenant_id: tenant(),
            project_id: project(),
            current_release_id: Some(ReleaseId(guid(7))),
            changes,
            stale: false,
        }),
        emitted(RuntimeDriftDetected {
            finding_id: FindingId(guid(8)),
            tenant_id: tenant(),
            environment_id: environment(),
            kind: DriftKind::ReplicaMismatch,
            resource: "apps/v1/Deployment/shop/web".to_owned(),
        }),
        emitted(ReconciliationProposed {
            proposal_id: ProposalId(guid(9)),
            tenant_id: tenant(),
            environment_id: environment(),
            direction: Direction::ApplyDeclared,
            destructive: true,
        }),
        emitted(ReconciliationDecided {
            proposal_id: ProposalId(guid(9)),
            tenant_id: tenant(),
            environment_id: environment(),
            state: ProposalState::Accepted,
            provisioning_run_id: Some(run),
        }),
    ]
}

/// The five that it takes in.
pub fn five() -> Vec<Sample> {
    let (config_refs, secret_refs) = refs();
    let approval = PromotionApproval {
        approval_id: ApprovalId(guid(10)),
        decided_by: person("ada@acme.example"),
        decided_at: at(8),
        expires_at: Some(at(20)),
    };
    let promotion = PromotionApproved {
        promotion_id: PromotionId(guid(2)),
        tenant_id: tenant(),
        project_id: project(),
        environment_id: environment(),
        release_id: ReleaseId(guid(7)),
        approval,
        program: program(),
        strategy: Some("rolling".to_owned()),
        config_refs: config_refs.clone(),
        secret_refs: secret_refs.clone(),
    };
    let created = EnvironmentCreated {
        environment_id: environment(),
        tenant_id: tenant(),
        project_id: project(),
        class: EnvironmentClass::Staging,
        region: "eu-central-1".to_owned(),
        targets: vec![Target { kind: TargetKind::Kubernetes, reference: "cluster/shop-staging".to_owned() }],
        identity_ref: Some("roles/shop-staging-provisioner".to_owned()),
        baseline_program: Some(BaselineProgram { program: program(), config_refs, secret_refs }),
    };
    let decided = ApprovalDecided {
        approval_id: ApprovalId(guid(11)),
        tenant_id: tenant(),
        provisioning_run_id: ProvisioningRunId(guid(1)),
        plan_digest: summary().digest,
        decision: Decision::Approved,
        decided_by: person("bob@acme.example"),
        decided_at: at(9),
        expires_at: Some(at(20)),
        reason: Some("read the plan with Ada".to_owned()),
    };
    let outcome = AttemptOutcomeRecorded {
        attempt_id: AttemptId(guid(5)),
        run_id: RunId(guid(12)),
        tenant_id: tenant(),
        outcome: "succeeded".to_owned(),
        recorded_at: at(9),
    };
    let released = SandboxReleased {
        sandbox_id: SandboxId::new("sandbox-17").unwrap(),
        tenant_id: tenant(),
        released_at: at(9),
    };
    vec![
        inbound(&promotion, guid(2).to_string()),
        inbound(&created, environment().to_string()),
        inbound(&decided, guid(11).to_string()),
        inbound(&outcome, guid(5).to_string()),
        inbound(&released, "sandbox-17".to_owned()),
    ]
}

/// All 18.
pub fn all() -> Vec<Sample> {
    thirteen().into_iter().chain(five()).collect()
}
