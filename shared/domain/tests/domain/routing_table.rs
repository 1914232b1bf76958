//! The routing table, cell by cell: what the design says on the left, what the function answers on the right.

use domain::routing::{Answer, Authority, ReconciliationSource, Route, RoutingFacts, Verdict, route};
use events::EnvironmentClass::{self, Development, Production, Staging, Test};
use events::ProvisioningKind::{self, Baseline, Manual, PoolResize, Promotion, Reconciliation};

use crate::sample::summary;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    ApplyByPolicy,
    ApplyByPromotion,
    ApplyByAcceptance,
    Await,
    Propose,
}

/// One question; the default is the most harmless one.
#[derive(Debug, Clone)]
struct Ask {
    kind: ProvisioningKind,
    class: EnvironmentClass,
    answer: Answer,
    policies: Vec<String>,
    deletes: u32,
    replaces: u32,
    protected: u32,
    covered: bool,
    reconciliation: ReconciliationSource,
    only_pool_size: bool,
}

fn ask(kind: ProvisioningKind, class: EnvironmentClass, answer: Answer) -> Ask {
    Ask {
        kind,
        class,
        answer,
        policies: vec!["a-policy".to_owned()],
        deletes: 0,
        replaces: 0,
        protected: 0,
        covered: true,
        reconciliation: ReconciliationSource::Scheduled { brake: false },
        only_pool_size: true,
    }
}

impl Ask {
    fn route(&self) -> Route {
        let verdict = Verdict { answer: self.answer, policies: self.policies.clone(), errors: vec![] };
        route(&RoutingFacts {
            kind: self.kind,
            class: self.class,
            summary: &summary(self.deletes, self.replaces, self.protected),
            verdict: &verdict,
            promotion_covered: self.covered,
            reconciliation: self.reconciliation,
            only_pool_size: self.only_pool_size,
        })
    }

    fn goes(&self, to: To) {
        let goes = match self.route() {
            Route::Apply { authority: Authority::Policy { policies } } => {
                assert_eq!(policies, self.policies, "the evidence is another one");
                To::ApplyByPolicy
            }
            Route::Apply { authority: Authority::PromotionApproval } => To::ApplyByPromotion,
            Route::Apply { authority: Authority::Acceptance } => To::ApplyByAcceptance,
            Route::Apply { authority: Authority::PlanApproval } => {
                panic!("nobody approved this plan: {self:?}")
            }
            Route::AwaitApproval { reason } | Route::Propose { reason } if reason.is_empty() => {
                panic!("no reason")
            }
            Route::AwaitApproval { .. } => To::Await,
            Route::Propose { .. } => To::Propose,
            Route::Forbid { .. } => panic!("nobody forbids this: {self:?}"),
        };
        assert_eq!(goes, to, "{self:?}");
    }
}

const ELSEWHERE: [EnvironmentClass; 3] = [Development, Test, Staging];

#[test]
fn promotion_baseline_and_manual_outside_production() {
    for class in ELSEWHERE {
        for kind in [Promotion, Baseline, Manual] {
            ask(kind, class, Answer::Allow).goes(To::ApplyByPolicy);
            ask(kind, class, Answer::NoAnswer).goes(To::Await);
            Ask { deletes: 3, ..ask(kind, class, Answer::Allow) }.goes(To::ApplyByPolicy);
            // Its approval is for production; outside, policies decide.
            Ask { covered: false, ..ask(kind, class, Answer::Allow) }.goes(To::ApplyByPolicy);
        }
    }
}

#[test]
fn promotion_in_production() {
    for answer in [Answer::Allow, Answer::NoAnswer] {
        ask(Promotion, Production, answer).goes(To::ApplyByPromotion);
        Ask { deletes: 2, replaces: 1, ..ask(Promotion, Production, answer) }.goes(To::ApplyByPromotion);
        Ask { deletes: 1, protected: 1, ..ask(Promotion, Production, answer) }.goes(To::Await);
        Ask { replaces: 1, protected: 1, ..ask(Promotion, Production, answer) }.goes(To::Await);
        // Rule 18.
        Ask { covered: false, ..ask(Promotion, Production, answer) }.goes(To::Await);
    }
}

#[test]
fn baseline_in_production() {
    ask(Baseline, Production, Answer::NoAnswer).goes(To::Await);
    ask(Baseline, Production, Answer::Allow).goes(To::ApplyByPolicy);
}

#[test]
fn manual_in_production() {
    ask(Manual, Production, Answer::NoAnswer).goes(To::Await);
    ask(Manual, Production, Answer::Allow).goes(To::Await);
}

#[test]
fn a_scheduled_reconciliation() {
    for class in ELSEWHERE {
        ask(Reconciliation, class, Answer::Allow).goes(To::ApplyByPolicy);
        ask(Reconciliation, class, Answer::NoAnswer).goes(To::Propose);
        Ask { deletes: 1, ..ask(Reconciliation, class, Answer::Allow) }.goes(To::Propose);
        Ask { replaces: 1, ..ask(Reconciliation, class, Answer::Allow) }.goes(To::Propose);
        let brake = ReconciliationSource::Scheduled { brake: true };
        Ask { reconciliation: brake, ..ask(Reconciliation, class, Answer::Allow) }.goes(To::Propose);
    }
    for answer in [Answer::Allow, Answer::NoAnswer] {
        ask(Reconciliation, Production, answer).goes(To::Propose);
        Ask { deletes: 1, ..ask(Reconciliation, Production, answer) }.goes(To::Propose);
    }
}

#[test]
fn an_accepted_reconciliation() {
    for class in [Development, Production] {
        for answer in [Answer::Allow, Answer::NoAnswer] {
            for deletes in [0, 2] {
                let accepted = |quorum| Ask {
                    reconciliation: ReconciliationSource::Accepted { quorum },
                    deletes,
                    ..ask(Reconciliation, class, answer)
                };
                accepted(false).goes(To::ApplyByAcceptance);
                accepted(true).goes(To::Await);
            }
        }
    }
}

#[test]
fn a_pool_resize() {
    for class in [Development, Production] {
        ask(PoolResize, class, Answer::Allow).goes(To::ApplyByPolicy);
        ask(PoolResize, class, Answer::NoAnswer).goes(To::Await);
        Ask { only_pool_size: false, ..ask(PoolResize, class, Answer::Allow) }.goes(To::Await);
    }
}

#[test]
fn a_forbid_ends_every_run() {
    for kind in ProvisioningKind::ALL {
        for class in EnvironmentClass::ALL {
            for quorum in [false, true] {
                let asked = Ask {
                    reconciliation: ReconciliationSource::Accepted { quorum },
                    ..ask(*kind, *class, Answer::Forbid)
                };
                assert_eq!(asked.route(), Route::Forbid { policies: vec!["a-policy".to_owned()] });
            }
        }
    }
}

#[test]
fn an_allow_without_evidence_is_no_allow() {
    for kind in [Promotion, Baseline, Manual, PoolResize] {
        Ask { policies: vec![], ..ask(kind, Development, Answer::Allow) }.goes(To::Await);
    }
    Ask { policies: vec![], ..ask(Reconciliation, Development, Answer::Allow) }.goes(To::Propose);
    Ask { policies: vec![], ..ask(Baseline, Production, Answer::Allow) }.goes(To::Await);
}
