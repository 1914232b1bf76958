//! Fields and whether they are required: the specification's table for the 13, the design's for the five.

use std::collections::BTreeMap;

use runtime_cloud_events::{Event, Inbound};
use serde_json::Value;

use crate::samples::{Sample, five, thirteen};

/// Name, topic, fields; a field that ends with `?` is optional.
type Row = (&'static str, &'static str, &'static str);

const EMITTED: [Row; 13] = [
    (
        "SpecificationDeclared",
        "provisioning.specifications.v1.specification-declared",
        "specificationId tenantId environmentId kind version programVersion",
    ),
    (
        "ProvisioningPlanned",
        "provisioning.runs.v1.provisioning-planned",
        "provisioningRunId tenantId environmentId kind promotionId? planSummary",
    ),
    (
        "ProvisioningApplied",
        "provisioning.runs.v1.provisioning-applied",
        "provisioningRunId tenantId projectId environmentId kind promotionId? specificationVersion outputs",
    ),
    (
        "ProvisioningFailed",
        "provisioning.runs.v1.provisioning-failed",
        "provisioningRunId tenantId environmentId kind promotionId? reason",
    ),
    (
        "WorkerPoolStateChanged",
        "capacity.pools.v1.worker-pool-state-changed",
        "poolId tenantId kind fromState toState currentSize",
    ),
    (
        "QuotaChanged",
        "capacity.quotas.v1.quota-changed",
        "quotaId tenantId projectId? concurrentRuns concurrentSandboxes",
    ),
    ("QuotaExceeded", "capacity.quotas.v1.quota-exceeded", "tenantId projectId holderKind holderId limit"),
    (
        "CapacityLeaseGranted",
        "capacity.leases.v1.capacity-lease-granted",
        "leaseId tenantId holderKind holderId poolId expiresAt",
    ),
    (
        "CapacityLeaseReleased",
        "capacity.leases.v1.capacity-lease-released",
        "leaseId tenantId holderKind holderId poolId state executionSeconds",
    ),
    (
        "ObservedStateChanged",
        "provisioning.inventory.v1.observed-state-changed",
        "environmentId tenantId projectId currentReleaseId? changes stale",
    ),
    (
        "RuntimeDriftDetected",
        "provisioning.inventory.v1.runtime-drift-detected",
        "findingId tenantId environmentId kind resource",
    ),
    (
        "ReconciliationProposed",
        "provisioning.inventory.v1.reconciliation-proposed",
        "proposalId tenantId environmentId direction destructive",
    ),
    (
        "ReconciliationDecided",
        "provisioning.inventory.v1.reconciliation-decided",
        "proposalId tenantId environmentId state provisioningRunId?",
    ),
];

const TAKEN_IN: [Row; 5] = [
    (
        "PromotionApproved",
        "delivery.promotions.v1.promotion-approved",
        "promotionId tenantId projectId environmentId releaseId approval program strategy? configRefs secretRefs",
    ),
    (
        "EnvironmentCreated",
        "control.environments.v1.environment-created",
        "environmentId tenantId projectId class region targets identityRef? baselineProgram?",
    ),
    (
        "ApprovalDecided",
        "control.approvals.v1.approval-decided",
        "approvalId tenantId provisioningRunId planDigest decision decidedBy decidedAt expiresAt? reason?",
    ),
    (
        "AttemptOutcomeRecorded",
        "runs.attempts.v1.attempt-outcome-recorded",
        "attemptId runId tenantId outcome recordedAt",
    ),
    ("SandboxReleased", "tools.sandboxes.v1.sandbox-released", "sandboxId tenantId releasedAt"),
];

const PRODUCERS: [&str; 13] = [
    "IaCProvisioningService",
    "IaCProvisioningService",
    "IaCProvisioningService",
    "IaCProvisioningService",
    "ExecutionCapacityService",
    "ExecutionCapacityService",
    "ExecutionCapacityService",
    "ExecutionCapacityService",
    "ExecutionCapacityService",
    "RuntimeEnvironmentService",
    "RuntimeEnvironmentService",
    "RuntimeEnvironmentService",
    "RuntimeEnvironmentService",
];

fn expected(fields: &str) -> BTreeMap<String, bool> {
    fields
        .split(' ')
        .map(|field| match field.strip_suffix('?') {
            Some(optional) => (optional.to_owned(), false),
            None => (field.to_owned(), true),
        })
        .collect()
}

fn has(sample: &Sample, (name, topic, fields): Row) {
    assert_eq!((sample.name, sample.topic), (name, topic));
    let schema = serde_json::to_value(&sample.schema).unwrap();
    let required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().unwrap();
    let found: BTreeMap<String, bool> =
        properties.keys().map(|name| (name.clone(), required.contains(&name.as_str()))).collect();
    assert_eq!(found, expected(fields), "{name}");
    // The sample shows every field, the optional ones too.
    let shown: Vec<&String> = sample.envelope.data.as_object().unwrap().keys().collect();
    assert_eq!(shown.len(), found.len(), "{name}: {shown:?}");
}

#[test]
fn emitted_events_have_the_specifications_fields() {
    let samples = thirteen();
    assert_eq!(samples.len(), EMITTED.len());
    for (sample, row) in samples.iter().zip(EMITTED) {
        has(sample, row);
    }
}

#[test]
fn inbound_events_have_the_designs_fields() {
    let samples = five();
    assert_eq!(samples.len(), TAKEN_IN.len());
    for (sample, row) in samples.iter().zip(TAKEN_IN) {
        has(sample, row);
    }
}

#[test]
fn the_catalogues_list_the_same_events() {
    for (((name, topic, producer, _), row), expected) in Event::CATALOGUE.iter().zip(EMITTED).zip(PRODUCERS) {
        assert_eq!((*name, *topic, producer.name()), (row.0, row.1, expected));
    }
    for ((name, topic, _), row) in Inbound::CATALOGUE.iter().zip(TAKEN_IN) {
        assert_eq!((*name, *topic), (row.0, row.1));
    }
}

#[test]
fn topics_follow_the_rule() {
    for (name, topic, _) in EMITTED.into_iter().chain(TAKEN_IN) {
        let parts: Vec<&str> = topic.split('.').collect();
        let [context, area, version, event] = parts.as_slice() else { panic!("{topic}") };
        assert!(!context.is_empty() && !area.is_empty() && *version == "v1", "{topic}");
        let words: String =
            event.split('-').map(|w| w[..1].to_uppercase() + &w[1..]).collect::<Vec<_>>().concat();
        assert_eq!(words, name);
    }
}
