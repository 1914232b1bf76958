//! The slot of an environment under arbitrary commands (Rules 11, 14, 17, 26, 27).

use domain::Aggregate;
use domain::aggregate::Refusal;
use domain::environment_slot::{EnvironmentSlot, PromotionHead, SlotCommand, StateHead};
use domain::invariants;
use domain::provisioning_run::Token;
use domain::receipt::ReceiptKind;
use events::{EnvironmentId, SpecificationId, TenantId};
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

use crate::sample::{after, digest, run_id};

#[derive(Debug, Clone)]
enum Step {
    Command(SlotCommand),
    /// The holder ends its apply, with or without a new state.
    ReleaseByHolder(Option<StateHead>),
}

fn specification(number: u128) -> SpecificationId {
    SpecificationId(Uuid::from_u128(number))
}

fn heads() -> impl Strategy<Value = StateHead> {
    (0..200_u8, 1..4_u32, any::<bool>()).prop_map(|(number, specification_version, pending_operations)| {
        StateHead { digest: digest(number), run: run_id(1), specification_version, pending_operations }
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let run = (1..5_u128).prop_map(run_id);
    let kinds = select(vec![ReceiptKind::Plan, ReceiptKind::Apply]);
    let promotion = prop::option::of((run.clone(), 0..100_i64))
        .prop_map(|p| p.map(|(run, minutes)| PromotionHead { run, decided_at: after(minutes) }));
    let command = prop_oneof![
        2 => (1..3_u128, 1..5_u32, promotion).prop_map(|(number, version, promotion)| SlotCommand::Declare {
            specification: specification(number), version, promotion,
        }),
        6 => run.clone().prop_map(|run| SlotCommand::Enqueue { run }),
        3 => run.clone().prop_map(|run| SlotCommand::Return { run }),
        2 => run.clone().prop_map(|run| SlotCommand::Leave { run }),
        8 => run.clone().prop_map(|run| SlotCommand::Take { run }),
        3 => (run.clone(), kinds, 0..200_u8).prop_map(|(run, kind, number)| SlotCommand::Link {
            run, kind, receipt: digest(number),
        }),
        3 => (run.clone(), 1..3_u32, 0..6_u64, prop::option::of(heads())).prop_map(|(run, epoch, sequence, state)| {
            let state = state.map(|s| (specification(1), s));
            SlotCommand::Release { run, token: Token { epoch, sequence }, state }
        }),
        1 => run.prop_map(|run| SlotCommand::Taint { run, reason: "a zombie wrote".to_owned() }),
        2 => Just(SlotCommand::Clear),
        1 => heads().prop_map(|state| SlotCommand::Settle { specification: specification(1), state }),
        1 => Just(SlotCommand::RaiseEpoch),
    ];
    prop_oneof![8 => command.prop_map(Step::Command), 3 => prop::option::of(heads()).prop_map(Step::ReleaseByHolder)]
}

fn open() -> EnvironmentSlot {
    EnvironmentSlot::open(TenantId::new("acme").unwrap(), EnvironmentId::new("e1").unwrap()).after().clone()
}

fn states(slot: &EnvironmentSlot) -> Vec<(SpecificationId, Option<StateHead>)> {
    slot.specifications
        .iter()
        .map(|(id, head)| (*id, head.state.clone()))
        .filter(|(_, s)| s.is_some())
        .collect()
}

fn check_step(before: &EnvironmentSlot, after: &EnvironmentSlot, command: &SlotCommand) {
    let broken = invariants::of_slot(after);
    assert!(broken.is_empty(), "{broken:?}\n{command:?}\n{before:?}\n{after:?}");
    assert!(after.epoch >= before.epoch && after.apply_sequence >= before.apply_sequence, "{command:?}");
    // Rule 14: the state head moves only with the commit that ends a run, or by a person's hand.
    let moves = matches!(command, SlotCommand::Release { .. } | SlotCommand::Settle { .. });
    assert!(moves || states(before) == states(after), "{command:?} moved a state head");
    match (&before.active, &after.active) {
        (Some(held), Some(holds)) => assert_eq!(held, holds, "{command:?} changed the holder"),
        (None, Some(_)) => {
            assert!(matches!(command, SlotCommand::Take { .. }), "{command:?} took the environment");
            assert!(before.tainted.is_none(), "a closed environment was taken");
        }
        (Some(held), None) => {
            let SlotCommand::Release { run, token, .. } = command else {
                panic!("{command:?} ended an apply")
            };
            assert_eq!((held.run, &held.token), (*run, token), "somebody else ended the apply");
        }
        (None, None) => {}
    }
    // Rule 26: one link after the other.
    match (command, &before.chain, &after.chain) {
        (SlotCommand::Link { run, kind, receipt }, old, Some(new)) => {
            let link = before.next_link(*run, *kind, receipt.clone());
            assert_eq!(link.previous, old.as_ref().map(|o| o.digest.clone()));
            assert_eq!(new.sequence, old.as_ref().map_or(0, |o| o.sequence) + 1);
            assert_eq!(new.digest, link.digest());
        }
        (_, old, new) => assert_eq!(old, new, "{command:?} changed the chain"),
    }
    for (id, head) in &before.specifications {
        let now = after.specifications.get(id).expect("a specification was forgotten");
        assert!(now.version >= head.version, "{command:?} took a version back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_keeps_its_invariants(steps in prop::collection::vec(steps(), 1..30)) {
        let mut slot = open();
        let mut tokens: Vec<Token> = vec![];
        for (minutes, step) in (0..).zip(steps) {
            let command = match step {
                Step::Command(command) => command,
                Step::ReleaseByHolder(state) => {
                    let Some(active) = slot.active.clone() else { continue };
                    let state = state.map(|s| (specification(1), s));
                    SlotCommand::Release { run: active.run, token: active.token, state }
                }
            };
            let before = slot.clone();
            match slot.decide(command.clone(), after(minutes)) {
                Ok((next, events)) => {
                    check_step(&before, &next, &command);
                    prop_assert!(events.is_empty());
                    if let (SlotCommand::Take { .. }, Some(active)) = (&command, &next.active) {
                        // Rules 11, 27: tokens only grow, over recoveries too.
                        prop_assert!(tokens.iter().all(|t| *t < active.token), "{:?} {:?}", tokens, active.token);
                        tokens.push(active.token.clone());
                    }
                    slot = next;
                }
                Err(refusal) => {
                    prop_assert_eq!(&slot, &before, "a refusal changed the slot");
                    let told = refusal.to_string();
                    prop_assert!(refusal.code().starts_with("slot-") && told.contains(';'), "{}", told);
                }
            }
        }
        let text = serde_json::to_vec(&slot).unwrap();
        prop_assert_eq!(serde_json::from_slice::<EnvironmentSlot>(&text).unwrap(), slot);
    }
}

#[test]
fn a_full_queue_refuses_the_next() {
    let mut slot = open();
    for number in 0..domain::environment_slot::QUEUE_LIMIT {
        let run = run_id(u128::try_from(number).unwrap());
        slot = slot.decide(SlotCommand::Enqueue { run }, after(0)).unwrap().0;
    }
    let refusal = slot.decide(SlotCommand::Enqueue { run: run_id(9999) }, after(0)).unwrap_err();
    assert_eq!(refusal.code(), "slot-queue-full");
    // Who is in it already isn't refused.
    assert!(slot.decide(SlotCommand::Enqueue { run: run_id(3) }, after(0)).is_ok());
}

// Rule 17: an approved run goes on right behind the head, and before everybody who waits.
#[test]
fn an_approved_run_returns_right_behind_the_head() {
    let mut slot = open();
    for number in 1..=3 {
        slot = slot.decide(SlotCommand::Enqueue { run: run_id(number) }, after(0)).unwrap().0;
    }
    slot = slot.decide(SlotCommand::Leave { run: run_id(1) }, after(0)).unwrap().0;
    assert!(slot.is_head(run_id(2)));
    slot = slot.decide(SlotCommand::Return { run: run_id(1) }, after(0)).unwrap().0;
    let order: Vec<_> = slot.queue.iter().map(|q| (q.run, q.approved)).collect();
    assert_eq!(order, [(run_id(2), false), (run_id(1), true), (run_id(3), false)]);
    let refusal = slot.decide(SlotCommand::Take { run: run_id(1) }, after(0)).unwrap_err();
    assert_eq!(refusal.code(), "slot-not-head");
}
