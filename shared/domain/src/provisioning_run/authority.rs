//! What lets a run's apply through, and who approved it.

use chrono::{DateTime, Utc};
use events::{EnvironmentClass, ProvisioningKind};

use super::{Approved, Evidence, ProvisioningRun, RunRefusal, RunSource, RunState};
use crate::plan::BoundInputs;
use crate::routing::Authority;

impl ProvisioningRun {
    /// The approval of its plan, else the one that came with its promotion.
    pub fn approval(&self) -> Option<Approved> {
        self.plan_approval().or_else(|| self.promotion_approval())
    }

    fn plan_approval(&self) -> Option<Approved> {
        let waiting = match &self.state {
            RunState::AwaitingApproval { approval, .. } => approval.as_ref(),
            RunState::PlanPending
            | RunState::PlanRecorded { .. }
            | RunState::Applying { .. }
            | RunState::Applied
            | RunState::Failed(_)
            | RunState::Rejected { .. }
            | RunState::Cancelled { .. } => None,
        };
        let given = self.approved.as_ref().or(waiting)?;
        Some(Approved { approval_id: given.approval, decided_by: given.by.clone(), decided_at: given.at })
    }

    fn promotion_approval(&self) -> Option<Approved> {
        match &self.source {
            RunSource::Promotion { approval, .. } => Some(Approved {
                approval_id: approval.approval_id,
                decided_by: approval.decided_by.clone(),
                decided_at: approval.decided_at,
            }),
            RunSource::Baseline | RunSource::Manual | RunSource::Reconciliation | RunSource::PoolResize => {
                None
            }
        }
    }

    /// What lets its apply through, with who approved it: what the receipt of the apply says.
    pub fn evidence(&self, authority: &Authority) -> Evidence {
        let approved = match authority {
            Authority::PlanApproval => self.plan_approval(),
            Authority::PromotionApproval => self.promotion_approval(),
            Authority::Acceptance | Authority::Policy { .. } => None,
        };
        Evidence { authority: authority.clone(), approved }
    }

    /// Whether the promotion's approval covers an apply: its environment, class, release and full commit are the
    /// ones that were approved, and it hasn't run out (Rule 18).
    pub fn promotion_covers(&self, inputs: &BoundInputs, now: DateTime<Utc>) -> bool {
        let RunSource::Promotion { approval, .. } = &self.source else { return false };
        inputs.release == self.release
            && inputs.commit == self.program.commit
            && inputs.repository == self.program.repository
            && inputs.path == self.program.path
            && approval.expires_at.is_none_or(|until| now <= until)
    }

    /// What lets an apply through now, or why nothing does. Checked when the run is claimed, and again under the
    /// environment's lock.
    pub fn authority(&self, now: DateTime<Utc>) -> Result<Authority, RunRefusal> {
        let missing = |why: String| RunRefusal::NoAuthority { run: self.id, why };
        let Some(plan) = &self.plan else { return Err(missing("no plan is recorded".to_owned())) };
        let authority = match &self.state {
            RunState::PlanRecorded { authority: Authority::PlanApproval } => {
                return Err(missing("nobody approved the plan yet".to_owned()));
            }
            RunState::PlanRecorded { authority } | RunState::Applying { authority, .. } => authority.clone(),
            RunState::AwaitingApproval { approval: Some(approval), .. } => {
                if approval.plan_digest != plan.plan_digest {
                    return Err(missing("the approval is of another plan".to_owned()));
                }
                if let Some(expired) = approval.expires_at.filter(|until| now > *until) {
                    return Err(RunRefusal::Expired { run: self.id, expired });
                }
                Authority::PlanApproval
            }
            RunState::AwaitingApproval { approval: None, .. } => {
                return Err(missing("nobody approved the plan yet".to_owned()));
            }
            RunState::PlanPending
            | RunState::Applied
            | RunState::Failed(_)
            | RunState::Rejected { .. }
            | RunState::Cancelled { .. } => return Err(missing("it has no plan to apply".to_owned())),
        };
        if authority == Authority::PromotionApproval && !self.promotion_covers(&plan.inputs, now) {
            return Err(missing(
                "the promotion's approval doesn't cover this release and commit, or it has expired"
                    .to_owned(),
            ));
        }
        let production = plan.inputs.class == EnvironmentClass::Production;
        let deletes = plan.summary.deletes + plan.summary.replaces;
        let fits = match (self.kind(), &authority) {
            (_, Authority::PlanApproval) | (ProvisioningKind::Reconciliation, Authority::Acceptance) => true,
            (ProvisioningKind::Promotion, Authority::PromotionApproval) => {
                !production || plan.summary.protected == 0
            }
            (ProvisioningKind::Reconciliation, Authority::Policy { .. }) if deletes > 0 => {
                return Err(missing(format!(
                    "a reconciliation with {deletes} delete(s) must become a proposal"
                )));
            }
            (
                ProvisioningKind::Promotion | ProvisioningKind::Manual | ProvisioningKind::Reconciliation,
                Authority::Policy { policies },
            ) => !production && !policies.is_empty(),
            (ProvisioningKind::Baseline | ProvisioningKind::PoolResize, Authority::Policy { policies }) => {
                !policies.is_empty()
            }
            (_, Authority::PromotionApproval | Authority::Acceptance) => false,
        };
        if !fits {
            return Err(missing(format!("{authority:?} is not enough for a {} run", self.kind())));
        }
        Ok(authority)
    }
}
