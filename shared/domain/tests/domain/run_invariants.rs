//! ProvisioningRun: one test for each invariant of the specification, and the rules behind them.

use domain::Aggregate;
use domain::aggregate::Refusal;
use domain::invariants;
use domain::plan::BoundInputs;
use domain::provisioning_run::{
    Failure, FailureReason, PlanApproval, PlanRecord, ProvisioningRun, RunCommand, RunRefusal, RunState,
};
use domain::routing::{Authority, Route};
use events::EnvironmentClass::{Development, Production};
use events::ProvisioningKind::{self, Baseline, Manual, PoolResize, Promotion, Reconciliation};
use events::{CommitHash, Event, ReleaseId};

use crate::sample::{
    after, apply, approval, by_policy, digest, inputs, now, plan, principal, record, run, summary, token,
};

fn production(deletes: u32, protected: u32) -> PlanRecord {
    plan(1, inputs(Production), summary(deletes, 0, protected))
}

fn applying(authority: Authority) -> Route {
    Route::Apply { authority }
}

fn awaiting() -> Route {
    Route::AwaitApproval { reason: "production".to_owned() }
}

fn decide(run: &ProvisioningRun, command: RunCommand) -> Result<ProvisioningRun, RunRefusal> {
    let next = run.decide(command, after(1))?.0;
    assert!(invariants::of_run(&next).is_empty(), "{:?}", invariants::of_run(&next));
    Ok(next)
}

fn start(run: &ProvisioningRun) -> Result<ProvisioningRun, RunRefusal> {
    decide(run, RunCommand::StartApply { token: token(1), due: after(60) })
}

fn refused(kind: ProvisioningKind, plan: PlanRecord, authority: Authority) {
    let refusal = decide(&run(kind), record(plan, applying(authority.clone())));
    let code = refusal.map_err(|r| r.code());
    assert_eq!(code.as_ref().err(), Some(&"run-no-authority"), "{kind} by {authority:?}: {code:?}");
}

// "An apply against a production environment needs the promotion's approval (production class) or, for a baseline or
// reconciliation, a policy allow with evidence; the plan is recorded before any apply."

#[test]
fn an_apply_in_production_needs_the_promotions_approval() {
    let allowed =
        decide(&run(Promotion), record(production(1, 0), applying(Authority::PromotionApproval))).unwrap();
    assert!(matches!(start(&allowed).unwrap().state, RunState::Applying { .. }));
    refused(Promotion, production(0, 0), by_policy());
    refused(Promotion, production(1, 1), Authority::PromotionApproval);
    for kind in [Baseline, Manual, PoolResize, Reconciliation] {
        refused(kind, production(0, 0), Authority::PromotionApproval);
    }
}

#[test]
fn an_apply_of_a_baseline_in_production_needs_a_policy_allow_with_evidence() {
    let allowed = decide(&run(Baseline), record(production(0, 0), applying(by_policy()))).unwrap();
    assert!(start(&allowed).is_ok());
    refused(Baseline, production(0, 0), Authority::Policy { policies: vec![] });
    refused(Baseline, production(0, 0), Authority::Acceptance);
    refused(Manual, production(0, 0), by_policy());
    refused(Manual, production(0, 0), Authority::Acceptance);
}

#[test]
fn an_allow_without_evidence_applies_nowhere() {
    for kind in ProvisioningKind::ALL {
        let elsewhere = plan(1, inputs(Development), summary(0, 0, 0));
        refused(*kind, elsewhere, Authority::Policy { policies: vec![] });
    }
}

#[test]
fn an_approval_that_nobody_gave_applies_nothing() {
    for class in [Development, Production] {
        for kind in ProvisioningKind::ALL {
            refused(*kind, plan(1, inputs(class), summary(0, 0, 0)), Authority::PlanApproval);
        }
        for kind in [Promotion, Baseline, Manual, PoolResize] {
            refused(kind, plan(1, inputs(class), summary(0, 0, 0)), Authority::Acceptance);
        }
    }
}

#[test]
fn the_plan_is_recorded_before_any_apply() {
    for kind in ProvisioningKind::ALL {
        assert_eq!(start(&run(*kind)).unwrap_err().code(), "run-wrong-state");
        let finish = RunCommand::Finish {
            token: token(1),
            apply: Box::new(apply(serde_json::json!({}))),
            failure: None,
            logs: None,
        };
        assert_eq!(decide(&run(*kind), finish).unwrap_err().code(), "run-wrong-state");
        let unplanned = RunCommand::Approve { approval: approval("bob", 1) };
        assert_eq!(decide(&run(*kind), unplanned).unwrap_err().code(), "run-wrong-state");
    }
    let waits = decide(&run(Manual), record(production(0, 0), awaiting())).unwrap();
    assert_eq!(start(&waits).unwrap_err().code(), "run-no-authority");
}

// Rule 18: the promotion's approval covers its release and its full commit, until it runs out.
#[test]
fn a_promotions_approval_covers_what_was_approved_and_nothing_else() {
    let other = |change: fn(&mut BoundInputs)| {
        let mut bound = inputs(Production);
        change(&mut bound);
        refused(Promotion, plan(1, bound, summary(0, 0, 0)), Authority::PromotionApproval);
    };
    other(|i| i.release = Some(ReleaseId(uuid::Uuid::from_u128(9))));
    other(|i| i.release = None);
    other(|i| i.commit = CommitHash::new("b".repeat(40)).unwrap());
    other(|i| i.path = "elsewhere".to_owned());
    other(|i| i.repository = "https://git.example/elsewhere.git".to_owned());
    let command = record(production(0, 0), applying(Authority::PromotionApproval));
    let late = run(Promotion).decide(command, after(121)).unwrap_err();
    assert_eq!(late.code(), "run-no-authority");
    // Also where it runs out between the plan and the apply.
    let planned =
        decide(&run(Promotion), record(production(0, 0), applying(Authority::PromotionApproval))).unwrap();
    let start = RunCommand::StartApply { token: token(1), due: after(200) };
    assert_eq!(planned.decide(start, after(121)).unwrap_err().code(), "run-no-authority");
}

// "A plan with deletes in production is never applied automatically by reconciliation; it becomes a reconciliation
// proposal."
#[test]
fn a_plan_with_deletes_is_never_applied_automatically_by_reconciliation() {
    for class in [Development, Production] {
        refused(Reconciliation, plan(1, inputs(class), summary(1, 0, 0)), by_policy());
        refused(Reconciliation, plan(1, inputs(class), summary(0, 1, 0)), by_policy());
    }
    refused(Reconciliation, production(0, 0), by_policy());
    let propose = Route::Propose { reason: "1 resource would be deleted".to_owned() };
    let ended = decide(&run(Reconciliation), record(production(1, 0), propose)).unwrap();
    assert!(matches!(&ended.state, RunState::Cancelled { by: None, reason } if reason.contains("proposal")));
    assert!(ended.plan.is_some(), "its plan is what the proposal shows");
    // A person accepted it: that is not automatic.
    assert!(decide(&run(Reconciliation), record(production(1, 0), applying(Authority::Acceptance))).is_ok());
}

// "Receipts are immutable; a re-run is a new provisioning run."
#[test]
fn receipts_are_immutable() {
    let planned =
        decide(&run(Promotion), record(production(0, 0), applying(Authority::PromotionApproval))).unwrap();
    let other = plan(2, inputs(Production), summary(5, 0, 0));
    for state in [planned.clone(), decide(&run(Manual), record(production(0, 0), awaiting())).unwrap()] {
        let again = decide(&state, record(other.clone(), awaiting())).unwrap_err();
        assert_eq!(again.code(), "run-wrong-state");
    }
    let applying = start(&planned).unwrap();
    assert!(decide(&applying, record(other, awaiting())).is_err());
    let finish = |outputs| RunCommand::Finish {
        token: token(1),
        apply: Box::new(apply(outputs)),
        failure: None,
        logs: None,
    };
    let applied = decide(&applying, finish(serde_json::json!({ "url": "a" }))).unwrap();
    assert!(decide(&applied, finish(serde_json::json!({ "url": "b" }))).is_err());
    assert_eq!(applied.plan, planned.plan);
    assert_eq!(applied.apply.as_ref().map(|a| &a.outputs["url"]), Some(&serde_json::json!("a")));
}

#[test]
fn a_rerun_is_a_new_run() {
    let tenant = run(Manual).tenant;
    let id = |attempt| domain::provisioning_run::run_id(&tenant, "promotion", "p1", attempt);
    assert_eq!(id(1), id(1));
    assert_ne!(id(1), id(2));
    assert_ne!(id(1), domain::provisioning_run::run_id(&tenant, "manual", "p1", 1));
    let failure = Failure { reason: FailureReason::PlanFailed, message: "no; look".to_owned() };
    let failed = decide(&run(Promotion), RunCommand::FailPlan { failure, logs: None }).unwrap();
    for command in [
        record(production(0, 0), awaiting()),
        RunCommand::StartApply { token: token(2), due: after(9) },
        RunCommand::Approve { approval: approval("bob", 1) },
        RunCommand::LookAgain { due: after(9) },
    ] {
        assert!(decide(&failed, command).is_err());
    }
}

// Approvals.

fn waiting() -> ProvisioningRun {
    decide(&run(Manual), record(production(1, 1), awaiting())).unwrap()
}

fn approve(run: &ProvisioningRun, approval: PlanApproval) -> Result<ProvisioningRun, RunRefusal> {
    decide(run, RunCommand::Approve { approval })
}

#[test]
fn an_approval_binds_the_plan_that_was_read() {
    assert_eq!(approve(&waiting(), approval("bob", 2)).unwrap_err().code(), "run-other-plan");
    let approved = approve(&waiting(), approval("bob", 1)).unwrap();
    assert!(matches!(
        start(&approved).unwrap().state,
        RunState::Applying { authority: Authority::PlanApproval, .. }
    ));
    let reject = RunCommand::Reject { by: principal("bob"), reason: "no".to_owned(), plan_digest: digest(2) };
    assert_eq!(decide(&waiting(), reject).unwrap_err().code(), "run-other-plan");
}

#[test]
fn who_approved_is_told_as_long_as_the_run_is() {
    let approved = start(&approve(&waiting(), approval("bob", 1)).unwrap()).unwrap();
    let evidence = serde_json::to_value(approved.evidence(&Authority::PlanApproval)).unwrap();
    assert_eq!((&evidence["by"], &evidence["decidedBy"]), (&"plan-approval".into(), &"bob".into()));
    assert!(evidence["approvalId"].is_string() && evidence["decidedAt"].is_string(), "{evidence}");
    let apply = Box::new(apply(serde_json::json!({})));
    let ended = decide(&approved, RunCommand::Finish { token: token(1), apply, failure: None, logs: None });
    assert_eq!(ended.unwrap().approval().unwrap().decided_by, principal("bob"));
    let by_promotion = run(Promotion).evidence(&Authority::PromotionApproval);
    assert_eq!(by_promotion.approved.unwrap().decided_by, principal("ada"));
    let by_policy = serde_json::to_value(run(Manual).evidence(&by_policy())).unwrap();
    assert_eq!(by_policy, serde_json::json!({"by": "policy", "policies": ["a-policy"]}));
    // A row from before is still read.
    let mut old = serde_json::to_value(&approved).unwrap();
    old.as_object_mut().unwrap().remove("approved");
    let old: ProvisioningRun = serde_json::from_value(old).unwrap();
    assert_eq!(old.evidence(&Authority::PlanApproval).approved, None);
}

#[test]
fn who_requested_a_run_does_not_approve_it() {
    assert_eq!(approve(&waiting(), approval("ada", 1)).unwrap_err().code(), "run-own-approval");
}

#[test]
fn an_approval_expires_and_is_checked_again_when_the_apply_starts() {
    let short = PlanApproval { expires_at: Some(after(10)), ..approval("bob", 1) };
    let approved = approve(&waiting(), short.clone()).unwrap();
    let start = |minutes| {
        approved
            .decide(RunCommand::StartApply { token: token(1), due: after(90) }, after(minutes))
            .map(|(run, _)| run)
    };
    assert!(start(10).is_ok());
    assert_eq!(start(11).unwrap_err().code(), "run-approval-expired");
    let late = RunCommand::Approve { approval: approval("bob", 1) };
    assert_eq!(waiting().decide(late, after(61)).unwrap_err().code(), "run-approval-expired");
    let stale = PlanApproval { expires_at: Some(now()), ..approval("bob", 1) };
    assert_eq!(approve(&waiting(), stale).unwrap_err().code(), "run-approval-expired");
    // The run's own limit holds where the approval's is later.
    let long =
        approve(&waiting(), PlanApproval { expires_at: Some(after(999)), ..approval("bob", 1) }).unwrap();
    let late =
        long.decide(RunCommand::StartApply { token: token(1), due: after(90) }, after(61)).unwrap_err();
    assert_eq!(late.code(), "run-approval-expired");
}

#[test]
fn waiting_ends_in_rejected_and_not_before_its_time() {
    assert_eq!(waiting().decide(RunCommand::Expire, after(60)).unwrap_err().code(), "run-approval-open");
    let (expired, events) = waiting().decide(RunCommand::Expire, after(61)).unwrap();
    assert!(matches!(expired.state, RunState::Rejected { by: None, .. }) && events.is_empty());
}

#[test]
fn the_first_approval_stands() {
    let approved = approve(&waiting(), approval("bob", 1)).unwrap();
    let again = approve(&approved, approval("eve", 1)).unwrap();
    assert_eq!(again, approved);
    let reject = RunCommand::Reject { by: principal("eve"), reason: "no".to_owned(), plan_digest: digest(1) };
    assert!(decide(&approved, reject).is_err());
}

// Rule 11: every later commit of an apply requires its token.
#[test]
fn only_the_tokens_holder_ends_an_apply() {
    let planned =
        decide(&run(Promotion), record(production(0, 0), applying(Authority::PromotionApproval))).unwrap();
    let applying = start(&planned).unwrap();
    assert_eq!(start(&applying).unwrap_err().code(), "run-wrong-state");
    let finish = |sequence, failure| RunCommand::Finish {
        token: token(sequence),
        apply: Box::new(apply(serde_json::json!({}))),
        failure,
        logs: None,
    };
    assert_eq!(decide(&applying, finish(2, None)).unwrap_err().code(), "run-other-token");
    let failure = Failure { reason: FailureReason::ApplyFailed, message: "no; look".to_owned() };
    let (failed, events) = applying.decide(finish(1, Some(failure)), after(2)).unwrap();
    assert!(failed.apply.is_some(), "a failed apply has its receipt");
    let [Event::ProvisioningFailed(event)] = events.as_slice() else { panic!("{events:?}") };
    assert!(event.reason.starts_with("apply-failed: "));
}

// Whatever Pulumi or a person says: the row and the event that end a run fit into every store.
#[test]
fn no_text_and_no_outputs_are_too_large_for_the_commit_that_ends_a_run() {
    let long = || "\n".repeat(10_000_000);
    let fits = |run: &ProvisioningRun, events: &[Event]| {
        let bytes = serde_json::to_vec(run).unwrap().len()
            + events.iter().map(|e| e.data().unwrap().to_string().len()).sum::<usize>();
        assert!(bytes < 350_000, "{bytes}");
    };
    let mut inputs = inputs(Development);
    inputs.identity = Some("x".repeat(domain::bounds::INPUTS - 1000));
    assert!(inputs.too_large().is_none());
    let planned =
        decide(&run(Manual), record(plan(1, inputs.clone(), summary(0, 0, 0)), applying(by_policy())))
            .unwrap();
    let applying = start(&planned).unwrap();
    for failure in [None, Some(Failure { reason: FailureReason::ApplyFailed, message: long() })] {
        let apply = Box::new(apply(serde_json::json!({"large": long()})));
        let finish = RunCommand::Finish { token: token(1), apply, failure, logs: None };
        let (ended, events) = applying.decide(finish, after(2)).unwrap();
        fits(&ended, &events);
    }
    let (stopped, events) =
        applying.decide(RunCommand::Cancel { by: principal("bob"), reason: long() }, after(2)).unwrap();
    fits(&stopped, &events);
    let fail = RunCommand::FailPlan {
        failure: Failure { reason: FailureReason::PlanFailed, message: long() },
        logs: None,
    };
    let (failed, events) = planned.decide(fail, after(2)).unwrap();
    fits(&failed, &events);
    let waits = record(production(0, 0), Route::AwaitApproval { reason: long() });
    let (waits, events) = run(Manual).decide(waits, after(2)).unwrap();
    fits(&waits, &events);
    let reject = RunCommand::Reject { by: principal("bob"), reason: long(), plan_digest: digest(1) };
    let (rejected, events) = waits.decide(reject, after(3)).unwrap();
    fits(&rejected, &events);
    inputs.identity = Some("x".repeat(domain::bounds::INPUTS));
    assert!(inputs.too_large().unwrap().contains("bytes"));
}
