//! The table of workers is the specification's: every row that is built has the specification's columns, and events
//! have its consumers.

use events::{Event, Inbound};
use runtime_cloud_application::catalog::{CONSUMERS, HANDLERS, Retry, Row, Trigger, WORKERS};

/// Worker, service, trigger, output events, retry, idempotency key, concurrency: as the specification prints them.
const SPECIFIED: [[&str; 7]; 7] = [
    [
        "Planner",
        "IaCProvisioningService",
        "event EnvironmentPromotionService.PromotionApproved",
        "ProvisioningPlanned",
        "exponential ×3",
        "provisioningRunId + plan",
        "4 by EnvironmentId",
    ],
    [
        "Applier",
        "IaCProvisioningService",
        "event IaCProvisioningService.ProvisioningPlanned",
        "ProvisioningApplied, ProvisioningFailed",
        "none ×1",
        "provisioningRunId + apply",
        "2 by EnvironmentId",
    ],
    [
        "GitOpsReconciler",
        "IaCProvisioningService",
        "schedule 0 */4 * * *",
        "ProvisioningPlanned, ProvisioningApplied",
        "fixed ×2",
        "environmentId + window",
        "4 by TenantId",
    ],
    [
        "Autoscaler",
        "ExecutionCapacityService",
        "schedule */2 * * * *",
        "WorkerPoolStateChanged",
        "fixed ×2",
        "poolId + window",
        "4 by PoolId",
    ],
    [
        "LeaseExpirer",
        "ExecutionCapacityService",
        "schedule */1 * * * *",
        "CapacityLeaseReleased",
        "none ×1",
        "leaseId + expiry",
        "4 by PoolId",
    ],
    [
        "Observer",
        "RuntimeEnvironmentService",
        "schedule */5 * * * *",
        "ObservedStateChanged",
        "fixed ×2",
        "environmentId + observation window",
        "8 by EnvironmentId",
    ],
    [
        "DriftComparer",
        "RuntimeEnvironmentService",
        "event RuntimeEnvironmentService.ObservedStateChanged",
        "RuntimeDriftDetected, ReconciliationProposed",
        "fixed ×2",
        "environmentId + observedAt",
        "4 by EnvironmentId",
    ],
];

/// Beyond the specification, each with its reason where it stands.
const OURS: [&str; 1] = ["RunWatch"];

/// Consumer, event, producer, handler: as the specification prints them.
const CONSUMED: [[&str; 4]; 9] = [
    ["IaCProvisioningService", "PromotionApproved", "EnvironmentPromotionService", "ProvisionPromotion"],
    ["IaCProvisioningService", "EnvironmentCreated", "EnvironmentService", "ProvisionBaseline"],
    ["IaCProvisioningService", "ApprovalDecided", "RunControlService", "ApplyApproval"],
    ["ExecutionCapacityService", "AttemptOutcomeRecorded", "RunControlService", "ReleaseAttemptLease"],
    ["ExecutionCapacityService", "SandboxReleased", "ToolAdapterService", "ReleaseSandboxLease"],
    ["ExecutionCapacityService", "ProvisioningApplied", "IaCProvisioningService", "PoolProvisioned"],
    ["RuntimeEnvironmentService", "SpecificationDeclared", "IaCProvisioningService", "TrackDeclared"],
    ["RuntimeEnvironmentService", "ProvisioningApplied", "IaCProvisioningService", "ObserveAfterApply"],
    ["RuntimeEnvironmentService", "ProvisioningFailed", "IaCProvisioningService", "ObserveAfterFailure"],
];

fn printed(row: &Row) -> [String; 7] {
    let trigger = match row.trigger {
        Trigger::Event(event) => format!("event {event}"),
        Trigger::Schedule(cron) => format!("schedule {cron}"),
    };
    let retry = match row.retry {
        Retry::Exponential(n) => format!("exponential ×{n}"),
        Retry::Fixed(n) => format!("fixed ×{n}"),
        Retry::None => "none ×1".to_owned(),
    };
    [
        row.name.to_owned(),
        row.service.name().to_owned(),
        trigger,
        row.outputs.join(", "),
        retry,
        row.idempotency_key.to_owned(),
        format!("{} by {}", row.concurrency, row.group),
    ]
}

#[test]
fn built_workers_are_the_specifications() {
    for row in &WORKERS {
        match SPECIFIED.iter().find(|s| s[0] == row.name) {
            Some(specified) => assert_eq!(printed(row), specified.map(str::to_owned)),
            None => assert!(OURS.contains(&row.name), "{} is in no specification", row.name),
        }
    }
    for name in ["Planner", "Applier"] {
        assert!(WORKERS.iter().any(|r| r.name == name), "{name} is gone");
    }
}

#[test]
fn built_handlers_are_the_specifications() {
    for row in &HANDLERS {
        let [consumer, event, producer, _] =
            CONSUMED.into_iter().find(|c| c[3] == row.name).expect("a handler is in no specification");
        assert_eq!(row.service.name(), consumer, "{}", row.name);
        assert_eq!(printed(row)[2], format!("event {producer}.{event}"), "{}", row.name);
    }
}

#[test]
fn names_and_queues_are_not_shared() {
    let mut names: Vec<_> = WORKERS.iter().chain(&HANDLERS).map(|r| r.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn consumers_are_the_specifications() {
    let specified = [
        ("SpecificationDeclared", "RuntimeEnvironmentService, StudioBff, AuditService"),
        ("ProvisioningPlanned", "StudioBff, AuditService, EnvironmentPromotionService"),
        (
            "ProvisioningApplied",
            "ExecutionCapacityService, EnvironmentPromotionService, RuntimeEnvironmentService, EnvironmentService, \
             StudioBff, AuditService, DashboardService",
        ),
        (
            "ProvisioningFailed",
            "EnvironmentPromotionService, RuntimeEnvironmentService, StudioBff, AuditService, AlertRuleService",
        ),
        ("WorkerPoolStateChanged", "StudioBff, SloService, AlertRuleService"),
        ("QuotaChanged", "RunControlService, StudioBff, AuditService"),
        ("QuotaExceeded", "RunControlService, StudioBff, DashboardService, CostUsageService"),
        ("CapacityLeaseGranted", "DashboardService, CostUsageService"),
        ("CapacityLeaseReleased", "DashboardService, CostUsageService"),
        (
            "ObservedStateChanged",
            "FleetInventoryService, EnvironmentService, EnvironmentPromotionService, SloService, StudioBff, \
             DashboardService",
        ),
        ("RuntimeDriftDetected", "AlertRuleService, StudioBff, AuditService, DashboardService"),
        ("ReconciliationProposed", "StudioBff, StudioNotificationService, AuditService"),
        ("ReconciliationDecided", "IaCProvisioningService, StudioBff, AuditService"),
    ];
    let found: Vec<_> = CONSUMERS.iter().map(|(event, consumers)| (*event, consumers.join(", "))).collect();
    assert_eq!(found, specified.map(|(event, consumers)| (event, consumers.to_owned())));
    // In the order of the catalogue, so that the two can be read side by side.
    for ((name, ..), (event, _)) in Event::CATALOGUE.iter().zip(CONSUMERS) {
        assert_eq!(*name, event);
    }
}

#[test]
fn rows_name_events_that_are_there() {
    let emitted = |service: &str, event: &str| {
        Event::CATALOGUE.iter().any(|(name, _, producer, _)| *name == event && producer.name() == service)
    };
    let inbound = |service: &str, event: &str| {
        Inbound::CATALOGUE.iter().any(|(name, _, producer)| *name == event && *producer == service)
    };
    for row in WORKERS.iter().chain(&HANDLERS) {
        for output in row.outputs {
            assert!(emitted(row.service.name(), output), "{} can't emit {output}", row.name);
        }
        let trigger = match row.trigger {
            Trigger::Event(event) => Some(event),
            Trigger::Schedule(_) => None,
        };
        // Other inputs are commands and messages: they have no dot in them.
        for event in trigger.into_iter().chain(row.inputs.iter().copied().filter(|i| i.contains('.'))) {
            let (service, name) = event.split_once('.').unwrap();
            assert!(emitted(service, name) || inbound(service, name), "{} waits for {event}", row.name);
        }
        assert!(row.deliveries >= row.retry.attempts(), "{} is put aside before its last attempt", row.name);
    }
}

#[test]
fn retries_wait_as_the_settings_say() {
    let seconds = |retry: Retry| (1..=8).map(|n| retry.delay(n).as_secs()).collect::<Vec<_>>();
    assert_eq!(seconds(Retry::Exponential(8))[..4], [5, 10, 20, 40]);
    assert!(seconds(Retry::Exponential(8)).windows(2).all(|w| w[0] <= w[1]));
    assert!(seconds(Retry::Fixed(2)).iter().all(|s| *s == 30));
    assert_eq!(
        [Retry::Exponential(3).attempts(), Retry::Fixed(2).attempts(), Retry::None.attempts()],
        [3, 2, 1]
    );
}
