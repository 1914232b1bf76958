use domain::plan::StepOp::{self, Create, Delete, Replace, Update};
use domain::routing::{Answer, Verdict};
use events::EnvironmentClass::{Development, Production, Staging, Test};
use events::ProvisioningKind::{Baseline, Manual, PoolResize, Promotion, Reconciliation};
use events::{EnvironmentClass, EnvironmentId, ProjectId, ProvisioningKind, TenantId};
use ports::PolicyEngine;
use runtime_cloud_policies::CedarPolicies;

use crate::{principal, question, with};

const FILE: &str = "local:index:File";
const BUCKET: &str = "aws:s3/bucket:Bucket";

async fn default(kind: ProvisioningKind, class: EnvironmentClass, steps: &[(StepOp, &str)]) -> Verdict {
    let policies = CedarPolicies::load(None).unwrap();
    policies.may_apply(&question(kind, class, steps)).await.unwrap()
}

#[tokio::test]
async fn outside_production_promotion_baseline_and_manual_are_allowed() {
    for class in [Development, Test, Staging] {
        for kind in [Promotion, Baseline, Manual] {
            let verdict = default(kind, class, &[(Create, BUCKET), (Update, FILE), (Delete, FILE)]).await;
            assert_eq!(verdict.answer, Answer::Allow, "{kind} in {class}");
            assert_eq!(verdict.policies, ["apply-outside-production"]);
            assert!(verdict.errors.is_empty());
        }
    }
}

#[tokio::test]
async fn a_protected_resource_that_goes_away_is_not_allowed() {
    for op in [Delete, Replace] {
        for kind in [Promotion, Baseline, Manual] {
            let verdict = default(kind, Development, &[(op, BUCKET)]).await;
            assert_eq!((verdict.answer, verdict.policies.len()), (Answer::NoAnswer, 0), "{kind} {op:?}");
        }
    }
    assert_eq!(default(Manual, Development, &[(Update, BUCKET)]).await.answer, Answer::Allow);
}

#[tokio::test]
async fn a_reconciliation_is_allowed_outside_production_without_deletes() {
    let verdict = default(Reconciliation, Staging, &[(Create, FILE), (Update, BUCKET)]).await;
    assert_eq!(
        (verdict.answer, verdict.policies),
        (Answer::Allow, vec!["reconcile-outside-production".to_owned()])
    );
    for op in [Delete, Replace] {
        assert_eq!(default(Reconciliation, Staging, &[(op, FILE)]).await.answer, Answer::NoAnswer, "{op:?}");
    }
}

#[tokio::test]
async fn nothing_answers_for_production_or_for_a_pool() {
    for kind in [Promotion, Baseline, Manual, Reconciliation, PoolResize] {
        assert_eq!(default(kind, Production, &[(Create, FILE)]).await.answer, Answer::NoAnswer, "{kind}");
    }
    assert_eq!(default(PoolResize, Development, &[(Update, FILE)]).await.answer, Answer::NoAnswer);
}

#[tokio::test]
async fn a_forbid_wins_and_names_itself_alone() {
    let policies = with(
        "@id(\"freeze\") forbid (principal, action in Action::\"apply\", resource)
         when { resource.tenant == \"acme\" && context.deletedTypes.contains(\"local:index:File\") };",
    );
    let policies = policies.unwrap();
    let verdict = policies.may_apply(&question(Manual, Test, &[(Delete, FILE)])).await.unwrap();
    assert_eq!((verdict.answer, verdict.policies), (Answer::Forbid, vec!["freeze".to_owned()]));
    let verdict = policies.may_apply(&question(Manual, Test, &[(Create, FILE)])).await.unwrap();
    assert_eq!(verdict.answer, Answer::Allow);
}

#[tokio::test]
async fn an_allow_in_production_carries_its_evidence() {
    let policies = with(
        "@id(\"baseline-allowed\") permit (principal, action == Action::\"apply-baseline\", resource)
         when { resource.project == \"shop\" };",
    );
    let verdict =
        policies.unwrap().may_apply(&question(Baseline, Production, &[(Create, FILE)])).await.unwrap();
    assert_eq!((verdict.answer, verdict.policies), (Answer::Allow, vec!["baseline-allowed".to_owned()]));
}

// A sum that overflows is the one thing that a validated policy can still fail on.
const OVERFLOW: &str = "when { context.adds * 9223372036854775807 > 0 };";

#[tokio::test]
async fn a_forbid_that_fails_lets_nothing_through() {
    let broken =
        format!("@id(\"broken\") forbid (principal, action in Action::\"apply\", resource) {OVERFLOW}");
    let policies = with(&broken).unwrap();
    let verdict =
        policies.may_apply(&question(Manual, Test, &[(Create, FILE), (Create, FILE)])).await.unwrap();
    assert_eq!((verdict.answer, verdict.policies.len()), (Answer::NoAnswer, 0));
    let [error] = verdict.errors.as_slice() else { panic!("{:?}", verdict.errors) };
    assert!(error.contains("broken") && error.contains("might forbid"), "{error}");
}

#[tokio::test]
async fn a_permit_that_fails_allows_nothing_by_itself() {
    let broken =
        format!("@id(\"broken\") permit (principal, action in Action::\"apply\", resource) {OVERFLOW}");
    let policies = with(&broken).unwrap();
    let steps = [(Create, FILE), (Create, FILE)];
    let verdict = policies.may_apply(&question(Manual, Production, &steps)).await.unwrap();
    assert_eq!((verdict.answer, verdict.errors.len()), (Answer::NoAnswer, 1));
    let verdict = policies.may_apply(&question(Manual, Test, &steps)).await.unwrap();
    assert_eq!(
        (verdict.answer, verdict.policies),
        (Answer::Allow, vec!["apply-outside-production".to_owned()])
    );
    assert!(verdict.errors.iter().any(|e| e.contains("allows nothing")), "{:?}", verdict.errors);
}

#[tokio::test]
async fn a_forbid_that_holds_wins_over_one_that_fails() {
    let both = format!(
        "@id(\"broken\") forbid (principal, action in Action::\"apply\", resource) {OVERFLOW}
         @id(\"never\") forbid (principal, action in Action::\"apply\", resource);"
    );
    let steps = [(Create, FILE), (Create, FILE)];
    let verdict = with(&both).unwrap().may_apply(&question(Manual, Test, &steps)).await.unwrap();
    assert_eq!((verdict.answer, verdict.policies), (Answer::Forbid, vec!["never".to_owned()]));
}

#[tokio::test]
async fn hostile_names_stay_names() {
    let names = [
        "\"; permit(principal,action,resource);//",
        "Service::\"RunControlService\"",
        "a::b::c",
        "back\\slash\\\"",
        "\\u{0} ${x} {{y}}",
        "ünïcödé-环境-🚀",
        "'; drop",
        "*",
        "..",
    ];
    let policies = with(
        "@id(\"only-bob\") forbid (principal == User::\"bob\", action in Action::\"apply\", resource);
         @id(\"only-env-9\") forbid (principal, action in Action::\"apply\", resource == Environment::\"env-9\");",
    );
    let policies = policies.unwrap();
    for name in names {
        let mut asked = question(Manual, Test, &[(Create, FILE)]);
        asked.requested_by = principal(name);
        asked.tenant = TenantId::new(name).unwrap();
        asked.project = ProjectId::new(name).unwrap();
        asked.environment = EnvironmentId::new(name).unwrap();
        for step in &mut asked.steps {
            name.clone_into(&mut step.resource_type);
        }
        let verdict = policies.may_apply(&asked).await.unwrap();
        assert_eq!(verdict.answer, Answer::Allow, "{name}");
        asked.class = Production;
        assert_eq!(policies.may_apply(&asked).await.unwrap().answer, Answer::NoAnswer, "{name}");
    }
}

#[tokio::test]
async fn an_exact_name_is_matched_exactly() {
    // The same text as in the policy, written with Cedar's escapes there.
    let policies = with(
        "@id(\"odd\") forbid (principal == User::\"o\\\"dd\\\\::é\", action in Action::\"apply\", resource);",
    );
    let policies = policies.unwrap();
    let mut asked = question(Manual, Test, &[(Create, FILE)]);
    asked.requested_by = principal("o\"dd\\::é");
    assert_eq!(policies.may_apply(&asked).await.unwrap().answer, Answer::Forbid);
    asked.requested_by = principal("o\"dd\\::e");
    assert_eq!(policies.may_apply(&asked).await.unwrap().answer, Answer::Allow);
}

#[test]
fn protected_types_cover_stores_and_spare_files() {
    let policies = CedarPolicies::load(None).unwrap().protecting(["local:index:Service".to_owned()]);
    let protected = |t: &str| domain::plan::is_protected(t, policies.protected_types());
    for on in [
        "aws:s3/bucket:Bucket",
        "aws:rds/instance:Instance",
        "aws:dynamodb/table:Table",
        "aws:kms/key:Key",
        "kubernetes:core/v1:PersistentVolumeClaim",
        "kubernetes:core/v1:Namespace",
        "gcp:sql/databaseInstance:DatabaseInstance",
        "azure-native:storage:StorageAccount",
        "local:index:Service",
    ] {
        assert!(protected(on), "{on}");
    }
    for off in [FILE, "kubernetes:apps/v1:Deployment", "aws:lambda/function:Function", "local:index:Services"]
    {
        assert!(!protected(off), "{off}");
    }
    assert!(policies.protected_types().iter().all(|t| !t.starts_with('#') && *t == t.trim() && *t != "*"));
}
