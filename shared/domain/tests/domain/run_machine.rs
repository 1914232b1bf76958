//! Arbitrary commands in arbitrary order: the invariants hold after each, a refusal changes nothing, an end is an end.

use chrono::{DateTime, Utc};
use domain::Aggregate;
use domain::aggregate::Refusal;
use domain::invariants;
use domain::plan::BoundInputs;
use domain::provisioning_run::{
    Failure, FailureReason, PlanApproval, ProvisioningRun, RunCommand, RunState, Token,
};
use domain::routing::{Authority, Route};
use events::{EnvironmentClass, Event, ProvisioningKind, ProvisioningState};
use proptest::prelude::*;
use proptest::sample::select;

use crate::sample::{
    after, apply, approval, by_policy, digest, inputs, plan, principal, record, run, run_id, summary,
};

fn who() -> impl Strategy<Value = &'static str> {
    select(vec!["ada", "bob", "eve"])
}

fn routes() -> impl Strategy<Value = Route> {
    let authority = select(vec![
        Authority::PromotionApproval,
        Authority::PlanApproval,
        Authority::Acceptance,
        by_policy(),
        Authority::Policy { policies: vec![] },
    ]);
    prop_oneof![
        4 => authority.prop_map(|authority| Route::Apply { authority }),
        4 => Just(Route::AwaitApproval { reason: "because".to_owned() }),
        1 => Just(Route::Propose { reason: "because".to_owned() }),
        1 => Just(Route::Forbid { policies: vec!["freeze".to_owned()] }),
    ]
}

/// Inputs as they were approved, or with something else in them.
fn bound() -> impl Strategy<Value = BoundInputs> {
    (select(EnvironmentClass::ALL), 0..8_u8).prop_map(|(class, other)| {
        let mut bound = inputs(class);
        match other {
            0 => bound.release = None,
            1 => bound.commit = events::CommitHash::new("b".repeat(40)).unwrap(),
            2 => bound.path = "other".to_owned(),
            3 => bound.repository = "https://git.example/other.git".to_owned(),
            _ => {}
        }
        bound
    })
}

fn plans() -> impl Strategy<Value = RunCommand> {
    let counts = (0..3_u32, 0..2_u32, 0..2_u32);
    (1..3_u8, bound(), counts, routes()).prop_map(|(number, bound, (deletes, replaces, protected), route)| {
        record(plan(number, bound, summary(deletes, replaces, protected)), route)
    })
}

fn approvals() -> impl Strategy<Value = RunCommand> {
    (who(), 1..3_u8, -10..130_i64, prop::option::of(-10..200_i64)).prop_map(|(by, number, at, expires)| {
        let given = approval(by, number);
        RunCommand::Approve {
            approval: PlanApproval { at: after(at), expires_at: expires.map(after), ..given },
        }
    })
}

fn failure() -> Failure {
    Failure { reason: FailureReason::ApplyFailed, message: "it failed; look".to_owned() }
}

fn tokens() -> impl Strategy<Value = Token> {
    (1..3_u32, 1..3_u64).prop_map(|(epoch, sequence)| Token { epoch, sequence })
}

fn commands() -> impl Strategy<Value = RunCommand> {
    prop_oneof![
        6 => plans(),
        1 => Just(RunCommand::FailPlan { failure: failure(), logs: Some(digest(7)) }),
        5 => approvals(),
        1 => (who(), 1..3_u8).prop_map(|(by, number)| RunCommand::Reject {
            by: principal(by),
            reason: "no".to_owned(),
            plan_digest: digest(number),
        }),
        2 => Just(RunCommand::Expire),
        5 => (tokens(), 0..200_i64).prop_map(|(token, due)| RunCommand::StartApply { token, due: after(due) }),
        4 => (tokens(), any::<bool>()).prop_map(|(token, failed)| RunCommand::Finish {
            token,
            apply: Box::new(apply(serde_json::json!({ "url": "http://x" }))),
            failure: failed.then(failure),
            logs: None,
        }),
        1 => who().prop_map(|by| RunCommand::Cancel { by: principal(by), reason: "no".to_owned() }),
        1 => Just(RunCommand::Supersede { by: run_id(9) }),
        1 => (0..200_i64).prop_map(|due| RunCommand::LookAgain { due: after(due) }),
    ]
}

/// The specification's transitions, and those beyond them that the design names.
fn may_follow(from: ProvisioningState, to: ProvisioningState) -> bool {
    use ProvisioningState::{Applied, Applying, AwaitingApproval, Cancelled, Failed, Planned, Rejected};
    match from {
        Planned => matches!(to, Planned | AwaitingApproval | Applying | Cancelled | Failed),
        AwaitingApproval => matches!(to, AwaitingApproval | Applying | Rejected | Cancelled),
        Applying => matches!(to, Applying | Applied | Failed),
        Applied | Failed | Rejected | Cancelled => false,
    }
}

fn check_step(before: &ProvisioningRun, after: &ProvisioningRun, events: &[Event], now: DateTime<Utc>) {
    let broken = invariants::of_run(after);
    assert!(broken.is_empty(), "{broken:?}\n{before:?}\n{after:?}");
    assert!(!before.state.is_final(), "an ended run accepted a command: {after:?}");
    assert!(may_follow(before.state.state(), after.state.state()), "{before:?}\n{after:?}");
    // Who it is never changes, and what was recorded is never recorded again.
    assert_eq!((&before.id, &before.tenant, &before.source), (&after.id, &after.tenant, &after.source));
    assert_eq!((&before.requested_by, before.started_at), (&after.requested_by, after.started_at));
    assert!(before.plan.is_none() || before.plan == after.plan, "a recorded plan changed");
    assert!(before.apply.is_none(), "a run with an apply receipt went on");
    if let RunState::AwaitingApproval { approval: Some(given), .. } = &after.state {
        assert_ne!(given.by, after.requested_by, "who requested a run approved it");
    }
    if let (RunState::Applying { token, .. }, RunState::Applying { token: next, .. }) =
        (&before.state, &after.state)
    {
        assert_eq!(token, next, "the token changed under an apply");
    }
    if let (RunState::Applying { authority, .. }, false) = (&after.state, is_applying(before)) {
        check_authority(after, authority, now);
    }
    let names: Vec<&str> = events.iter().map(Event::name).collect();
    let planned = before.plan.is_none() && after.plan.is_some();
    let expected: &[&str] = match after.state.state() {
        ProvisioningState::Applied => &["ProvisioningApplied"],
        ProvisioningState::Failed => &["ProvisioningFailed"],
        _ if planned => &["ProvisioningPlanned"],
        _ => &[],
    };
    assert_eq!(names, expected, "{before:?}\n{after:?}");
    let text = serde_json::to_vec(after).unwrap();
    assert_eq!(&serde_json::from_slice::<ProvisioningRun>(&text).unwrap(), after);
}

fn is_applying(run: &ProvisioningRun) -> bool {
    matches!(run.state, RunState::Applying { .. })
}

/// What may start an apply, written from the specification and not from the code.
fn check_authority(run: &ProvisioningRun, authority: &Authority, now: DateTime<Utc>) {
    let plan = run.plan.as_ref().expect("an apply without a plan");
    let production = plan.inputs.class == EnvironmentClass::Production;
    let deletes = plan.summary.deletes + plan.summary.replaces;
    match (run.kind(), authority) {
        (_, Authority::PlanApproval) => {}
        (ProvisioningKind::Promotion, Authority::PromotionApproval) => {
            // Rule 18.
            assert_eq!(
                plan.inputs,
                inputs(plan.inputs.class),
                "another release or commit than the approved one"
            );
            assert!(now <= after(120), "the approval had run out");
            assert!(
                !production || plan.summary.protected == 0,
                "a protected resource went away in production"
            );
        }
        (ProvisioningKind::Reconciliation, Authority::Acceptance) => {}
        (ProvisioningKind::Reconciliation, Authority::Policy { policies }) => {
            assert!(!production && deletes == 0 && !policies.is_empty());
        }
        (ProvisioningKind::Promotion | ProvisioningKind::Manual, Authority::Policy { policies }) => {
            assert!(!production && !policies.is_empty());
        }
        (ProvisioningKind::Baseline | ProvisioningKind::PoolResize, Authority::Policy { policies }) => {
            assert!(!policies.is_empty(), "a policy's allow without evidence");
        }
        (kind, authority) => panic!("a {kind} run is applied by {authority:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_keeps_its_invariants(
        kind in select(ProvisioningKind::ALL),
        steps in prop::collection::vec((commands(), 0..40_i64), 1..12),
    ) {
        let mut state = run(kind);
        prop_assert!(invariants::of_run(&state).is_empty());
        let mut minutes = 0;
        for (command, passed) in steps {
            minutes += passed;
            let now = after(minutes);
            let before = state.clone();
            match state.decide(command, now) {
                Ok((next, events)) => {
                    check_step(&before, &next, &events, now);
                    state = next;
                }
                Err(refusal) => {
                    prop_assert_eq!(&state, &before, "a refusal changed the state");
                    let told = refusal.to_string();
                    prop_assert!(refusal.code().starts_with("run-") && told.contains(';'), "{}", told);
                }
            }
        }
    }

    #[test]
    fn an_ended_run_accepts_nothing(
        kind in select(ProvisioningKind::ALL),
        ends in prop::collection::vec(commands(), 20),
        more in prop::collection::vec(commands(), 20),
    ) {
        let mut state = run(kind);
        for command in ends {
            if let Ok((next, _)) = state.decide(command, after(1)) {
                state = next;
            }
        }
        if !state.state.is_final() {
            let cancel = RunCommand::Cancel { by: principal("ada"), reason: "enough".to_owned() };
            state = state.decide(cancel, after(1)).map_or(state, |(next, _)| next);
        }
        prop_assume!(state.state.is_final());
        for command in more {
            prop_assert!(state.decide(command, after(2)).is_err());
        }
    }

    #[test]
    fn who_requested_a_run_never_approves_it(
        kind in select(ProvisioningKind::ALL),
        steps in prop::collection::vec(commands(), 1..12),
        number in 1..3_u8,
    ) {
        let mut state = run(kind);
        for command in steps {
            let own = RunCommand::Approve { approval: approval("ada", number) };
            prop_assert!(state.decide(own, after(1)).is_err(), "{:?}", state.state);
            if let Ok((next, _)) = state.decide(command, after(1)) {
                state = next;
            }
        }
    }
}
