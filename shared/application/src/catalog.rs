//! The single table of who works on what: the host schedules from it, and tests hold every document against it.

use std::time::Duration;

use events::{Event, Service};

/// What wakes a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// An event, by the specification's `Service.Event`.
    Event(&'static str),
    /// A schedule, as a cron expression of five fields, UTC.
    Schedule(&'static str),
}

/// How often a piece of work is tried, counted from the claim of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// 5 s, doubling.
    Exponential(u32),
    /// 30 s each.
    Fixed(u32),
    /// Once.
    None,
}

impl Retry {
    /// Total attempts.
    pub const fn attempts(self) -> u32 {
        match self {
            Retry::Exponential(n) | Retry::Fixed(n) => n,
            Retry::None => 1,
        }
    }
    /// How long to wait after the failure of an attempt (1 for the first).
    pub const fn delay(self, attempt: u32) -> Duration {
        match self {
            Retry::Exponential(_) => {
                let doublings = if attempt > 6 { 6 } else { attempt.saturating_sub(1) };
                Duration::from_secs(5 << doublings)
            }
            Retry::Fixed(_) | Retry::None => Duration::from_secs(30),
        }
    }
}

/// One worker or handler.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The specification's name; also the name of its queue.
    pub name: &'static str,
    /// Whose it is.
    pub service: Service,
    /// What wakes it.
    pub trigger: Trigger,
    /// Every other input.
    pub inputs: &'static [&'static str],
    /// Events that it emits.
    pub outputs: &'static [&'static str],
    /// How often it tries.
    pub retry: Retry,
    /// How often a message is delivered before it is put aside, whatever became of it.
    pub deliveries: u32,
    /// What makes two pieces of work the same.
    pub idempotency_key: &'static str,
    /// How many at once.
    pub concurrency: u32,
    /// One at a time of each.
    pub group: &'static str,
    /// Ports that it needs.
    pub needs: &'static [&'static str],
}

/// The workers that are built. The specification's others come with their issues.
pub const WORKERS: [Row; 3] = [PLANNER, APPLIER, RUN_WATCH];

/// Plans.
pub const PLANNER: Row = Row {
    name: "Planner",
    service: Service::IaCProvisioningService,
    trigger: Trigger::Event("EnvironmentPromotionService.PromotionApproved"),
    inputs: &["EnvironmentService.EnvironmentCreated", "PlanProvisioning", "RunnerFinished", "RunWatch"],
    outputs: &["ProvisioningPlanned"],
    retry: Retry::Exponential(3),
    deliveries: 1000,
    idempotency_key: "provisioningRunId + plan",
    concurrency: 4,
    group: "EnvironmentId",
    needs: &[
        "Store",
        "Receipts",
        "Artifacts",
        "Runner",
        "PolicyEngine",
        "ConfigPlatform",
        "SecretBroker",
        "EnvironmentReader",
    ],
};

/// Applies.
pub const APPLIER: Row = Row {
    name: "Applier",
    service: Service::IaCProvisioningService,
    trigger: Trigger::Event("IaCProvisioningService.ProvisioningPlanned"),
    inputs: &["RunControlService.ApprovalDecided", "RunnerFinished", "RunWatch"],
    outputs: &["ProvisioningApplied", "ProvisioningFailed"],
    retry: Retry::None,
    deliveries: 1000,
    idempotency_key: "provisioningRunId + apply",
    concurrency: 2,
    group: "EnvironmentId",
    needs: &["Store", "Receipts", "Artifacts", "Runner", "PolicyEngine", "ConfigPlatform", "SecretBroker"],
};

/// Ends or queues again what got stuck, and expires approvals. Ours: the specification names no such worker.
pub const RUN_WATCH: Row = Row {
    name: "RunWatch",
    service: Service::IaCProvisioningService,
    trigger: Trigger::Schedule("*/1 * * * *"),
    inputs: &[],
    outputs: &["ProvisioningFailed"],
    retry: Retry::Fixed(2),
    deliveries: 10,
    idempotency_key: "window + environmentId",
    concurrency: 4,
    group: "EnvironmentId",
    needs: &["Store", "Runner", "Queue"],
};

/// The handlers of inbound events that are built.
pub const HANDLERS: [Row; 3] = [PROVISION_PROMOTION, PROVISION_BASELINE, APPLY_APPROVAL];

/// A promotion hands over its desired state.
pub const PROVISION_PROMOTION: Row = Row {
    name: "ProvisionPromotion",
    trigger: Trigger::Event("EnvironmentPromotionService.PromotionApproved"),
    outputs: &["SpecificationDeclared"],
    idempotency_key: "promotionId",
    ..HANDLER
};

/// A new environment gets its baseline planned.
pub const PROVISION_BASELINE: Row = Row {
    name: "ProvisionBaseline",
    trigger: Trigger::Event("EnvironmentService.EnvironmentCreated"),
    outputs: &["SpecificationDeclared"],
    idempotency_key: "environmentId",
    ..HANDLER
};

/// Applies in production wait for their approval.
pub const APPLY_APPROVAL: Row = Row {
    name: "ApplyApproval",
    trigger: Trigger::Event("RunControlService.ApprovalDecided"),
    outputs: &[],
    idempotency_key: "approvalId",
    ..HANDLER
};

const HANDLER: Row = Row {
    name: "",
    service: Service::IaCProvisioningService,
    trigger: Trigger::Event(""),
    inputs: &[],
    outputs: &[],
    retry: Retry::Exponential(8),
    deliveries: 1000,
    idempotency_key: "",
    concurrency: 4,
    group: "EnvironmentId",
    needs: &["Store"],
};

/// Who consumes each event, as the specification lists them: a missing row doesn't compile.
pub const CONSUMERS: [(&str, &[&str]); Event::CATALOGUE.len()] = [
    ("SpecificationDeclared", &["RuntimeEnvironmentService", "StudioBff", "AuditService"]),
    ("ProvisioningPlanned", &["StudioBff", "AuditService", "EnvironmentPromotionService"]),
    (
        "ProvisioningApplied",
        &[
            "ExecutionCapacityService",
            "EnvironmentPromotionService",
            "RuntimeEnvironmentService",
            "EnvironmentService",
            "StudioBff",
            "AuditService",
            "DashboardService",
        ],
    ),
    (
        "ProvisioningFailed",
        &[
            "EnvironmentPromotionService",
            "RuntimeEnvironmentService",
            "StudioBff",
            "AuditService",
            "AlertRuleService",
        ],
    ),
    ("WorkerPoolStateChanged", &["StudioBff", "SloService", "AlertRuleService"]),
    ("QuotaChanged", &["RunControlService", "StudioBff", "AuditService"]),
    ("QuotaExceeded", &["RunControlService", "StudioBff", "DashboardService", "CostUsageService"]),
    ("CapacityLeaseGranted", &["DashboardService", "CostUsageService"]),
    ("CapacityLeaseReleased", &["DashboardService", "CostUsageService"]),
    (
        "ObservedStateChanged",
        &[
            "FleetInventoryService",
            "EnvironmentService",
            "EnvironmentPromotionService",
            "SloService",
            "StudioBff",
            "DashboardService",
        ],
    ),
    ("RuntimeDriftDetected", &["AlertRuleService", "StudioBff", "AuditService", "DashboardService"]),
    ("ReconciliationProposed", &["StudioBff", "StudioNotificationService", "AuditService"]),
    ("ReconciliationDecided", &["IaCProvisioningService", "StudioBff", "AuditService"]),
];
