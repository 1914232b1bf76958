//! Where a recorded plan goes: one pure function over the routing table.

use std::fmt;

use events::{EnvironmentClass, PlanSummary, ProvisioningKind};
use serde::{Deserialize, Serialize};

/// What the policy engine answered, with the policies that decided: evidence in the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// Ids of the determining policies.
    pub policies: Vec<String>,
    /// What the engine could not evaluate.
    #[serde(default)]
    pub errors: Vec<String>,
}

/// Allow, no answer, or forbid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A policy permits it.
    Allow,
    /// No policy speaks of it.
    NoAnswer,
    /// A policy forbids it.
    Forbid,
}

/// What the routing table looks at.
#[derive(Debug, Clone)]
pub struct RoutingFacts<'a> {
    /// Why the run exists.
    pub kind: ProvisioningKind,
    /// The environment's class.
    pub class: EnvironmentClass,
    /// What the plan would do.
    pub summary: &'a PlanSummary,
    /// What the policy answered.
    pub verdict: &'a Verdict,
    /// A promotion's approval covers {environment, class, release, full commit} and hasn't run out (Rule 18).
    pub promotion_covered: bool,
    /// For a reconciliation: where it comes from.
    pub reconciliation: ReconciliationSource,
    /// For a pool resize: only the pool's size changes.
    pub only_pool_size: bool,
}

/// Where a reconciliation run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconciliationSource {
    /// A schedule or a finding.
    Scheduled {
        /// The brake is on: after missed windows, or when too much differs.
        brake: bool,
    },
    /// An accepted proposal.
    Accepted {
        /// A policy wants a second person.
        quorum: bool,
    },
}

/// Where a plan goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// To the Applier.
    Apply {
        /// What lets it through.
        authority: Authority,
    },
    /// To a person.
    AwaitApproval {
        /// Why, in one sentence.
        reason: String,
    },
    /// To a reviewable proposal; this run ends.
    Propose {
        /// Why, in one sentence.
        reason: String,
    },
    /// Nowhere: a policy forbids it.
    Forbid {
        /// The policies.
        policies: Vec<String>,
    },
}

/// What lets an apply through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Authority {
    /// The promotion's approval.
    PromotionApproval,
    /// An approval of this plan.
    PlanApproval,
    /// The acceptance of a proposal.
    Acceptance,
    /// A policy, with the ids that are its evidence.
    Policy {
        /// Ids of the determining policies.
        policies: Vec<String>,
    },
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Apply { authority: Authority::PromotionApproval } => {
                f.write_str("apply: the promotion's approval covers it")
            }
            Route::Apply { authority: Authority::PlanApproval } => {
                f.write_str("apply: this plan was approved")
            }
            Route::Apply { authority: Authority::Acceptance } => {
                f.write_str("apply: its proposal was accepted")
            }
            Route::Apply { authority: Authority::Policy { policies } } => {
                write!(f, "apply: allowed by policy {}", policies.join(", "))
            }
            Route::AwaitApproval { reason } => write!(f, "await approval: {reason}"),
            Route::Propose { reason } => write!(f, "propose: {reason}"),
            Route::Forbid { policies } => write!(f, "forbidden by policy {}", policies.join(", ")),
        }
    }
}

/// The routing table.
pub fn route(facts: &RoutingFacts<'_>) -> Route {
    let verdict = facts.verdict;
    if verdict.answer == Answer::Forbid {
        return Route::Forbid { policies: verdict.policies.clone() };
    }
    let production = facts.class == EnvironmentClass::Production;
    let allowed = || Route::Apply { authority: Authority::Policy { policies: verdict.policies.clone() } };
    // An allow without a policy behind it is no evidence.
    let allow = verdict.answer == Answer::Allow && !verdict.policies.is_empty();
    let wait = |reason: &str| Route::AwaitApproval { reason: reason.to_owned() };
    let deletes = facts.summary.deletes + facts.summary.replaces;
    match (facts.kind, production) {
        (ProvisioningKind::Promotion, true) if !facts.promotion_covered => {
            wait("the promotion's approval doesn't cover this apply in production")
        }
        (ProvisioningKind::Promotion, true) if facts.summary.protected > 0 => wait(&format!(
            "{} protected resource(s) would be deleted or replaced in production",
            facts.summary.protected
        )),
        (ProvisioningKind::Promotion, true) => Route::Apply { authority: Authority::PromotionApproval },
        (ProvisioningKind::Baseline, true) if allow => allowed(),
        (ProvisioningKind::Baseline, true) => wait("a baseline in production needs an approval of its plan"),
        (ProvisioningKind::Manual, true) => wait("a manual run in production needs an approval of its plan"),
        (ProvisioningKind::Promotion | ProvisioningKind::Baseline | ProvisioningKind::Manual, false)
            if allow =>
        {
            allowed()
        }
        (ProvisioningKind::Promotion | ProvisioningKind::Baseline | ProvisioningKind::Manual, false) => {
            wait("no policy allows this plan")
        }
        (ProvisioningKind::Reconciliation, _) => match facts.reconciliation {
            ReconciliationSource::Accepted { quorum: true } => wait("policy wants a second person to agree"),
            ReconciliationSource::Accepted { quorum: false } => {
                Route::Apply { authority: Authority::Acceptance }
            }
            ReconciliationSource::Scheduled { .. } if production => {
                Route::Propose { reason: "differences in production are always reviewed".to_owned() }
            }
            ReconciliationSource::Scheduled { .. } if deletes > 0 => {
                Route::Propose { reason: format!("{deletes} resource(s) would be deleted or replaced") }
            }
            ReconciliationSource::Scheduled { brake: true } => Route::Propose {
                reason: "the brake is on: too much differs, or windows were missed".to_owned(),
            },
            ReconciliationSource::Scheduled { brake: false } if allow => allowed(),
            ReconciliationSource::Scheduled { brake: false } => {
                Route::Propose { reason: "no policy allows this plan".to_owned() }
            }
        },
        (ProvisioningKind::PoolResize, _) if facts.only_pool_size && allow => allowed(),
        (ProvisioningKind::PoolResize, _) => {
            wait("more than the pool's size would change, or no policy allows it")
        }
    }
}
