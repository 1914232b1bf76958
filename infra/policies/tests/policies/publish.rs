use domain::routing::Answer;
use events::Inbound;
use ports::PolicyEngine;
use runtime_cloud_policies::{CedarPolicies, Role};

use crate::{principal, with};

const PROMOTION: &str = "delivery.promotions.v1.promotion-approved";
const ENVIRONMENT: &str = "control.environments.v1.environment-created";
const APPROVAL: &str = "control.approvals.v1.approval-decided";
const OUTCOME: &str = "runs.attempts.v1.attempt-outcome-recorded";
const SANDBOX: &str = "tools.sandboxes.v1.sandbox-released";

async fn answer(policies: &CedarPolicies, who: &str, topic: &str) -> Answer {
    policies.may_publish(&principal(who), topic, "/elsewhere").await.unwrap().answer
}

#[tokio::test]
async fn each_inbound_event_comes_from_its_producer_alone() {
    let policies = CedarPolicies::load(None).unwrap();
    let mut producers: Vec<_> = Inbound::CATALOGUE.iter().map(|(_, _, producer)| *producer).collect();
    producers.extend(["IaCProvisioningService", "ExecutionCapacityService", "RuntimeEnvironmentService"]);
    for (name, topic, producer) in Inbound::CATALOGUE {
        for other in &producers {
            let expected = if *other == producer { Answer::Allow } else { Answer::NoAnswer };
            assert_eq!(answer(&policies, other, topic).await, expected, "{name} by {other}");
        }
    }
}

#[tokio::test]
async fn people_promote_and_create_but_never_publish_approvals() {
    let policies = CedarPolicies::load(None).unwrap().with_role(principal("root"), Role::Admin);
    for who in ["ada", "root"] {
        assert_eq!(answer(&policies, who, PROMOTION).await, Answer::Allow);
        assert_eq!(answer(&policies, who, ENVIRONMENT).await, Answer::Allow);
        let verdict = policies.may_publish(&principal(who), APPROVAL, "/elsewhere").await.unwrap();
        assert_eq!(verdict.answer, Answer::Forbid);
        assert_eq!(verdict.policies, ["people-approve-by-command-only"]);
    }
}

#[tokio::test]
async fn only_people_with_a_role_free_capacity() {
    let policies = CedarPolicies::load(None)
        .unwrap()
        .with_role(principal("olga"), Role::Operator)
        .with_role(principal("root"), Role::Admin);
    for topic in [OUTCOME, SANDBOX] {
        assert_eq!(answer(&policies, "ada", topic).await, Answer::NoAnswer);
        assert_eq!(answer(&policies, "olga", topic).await, Answer::Allow);
        assert_eq!(answer(&policies, "root", topic).await, Answer::Allow);
    }
}

#[tokio::test]
async fn nobody_writes_under_our_own_sources_or_to_unknown_topics() {
    let policies = CedarPolicies::load(None).unwrap();
    let service = principal("EnvironmentPromotionService");
    let forged = policies.may_publish(&service, PROMOTION, "/runtime-cloud/IaCProvisioningService");
    let forged = forged.await.unwrap();
    assert_eq!((forged.answer, forged.policies), (Answer::Forbid, vec!["own-sources-are-ours".to_owned()]));
    for topic in ["", "x", "provisioning.runs.v1.provisioning-applied", "a\"::b\\", "délivery"] {
        assert_eq!(
            answer(&policies, "EnvironmentPromotionService", topic).await,
            Answer::NoAnswer,
            "{topic}"
        );
        assert_eq!(answer(&policies, "ada", topic).await, Answer::NoAnswer, "{topic}");
    }
}

#[tokio::test]
async fn a_name_that_looks_like_a_service_is_a_person() {
    let policies = CedarPolicies::load(None).unwrap();
    for who in [
        "RunControlService ",
        "runcontrolservice",
        "Service::\"RunControlService\"",
        "RunControlService\" || true || \"",
        "RunControlServicе", // the last letter is Cyrillic
    ] {
        assert_eq!(answer(&policies, who, APPROVAL).await, Answer::Forbid, "{who:?}");
        assert_eq!(answer(&policies, who, OUTCOME).await, Answer::NoAnswer, "{who:?}");
    }
}

#[tokio::test]
async fn further_policies_can_open_a_topic() {
    let policies = with(
        "@id(\"bot\") permit (principal == User::\"ci-bot\", action == Action::\"publish\", resource)
         when { context.source like \"/ci/*\" };",
    );
    let policies = policies.unwrap();
    let bot = principal("ci-bot");
    assert_eq!(policies.may_publish(&bot, OUTCOME, "/ci/main").await.unwrap().answer, Answer::Allow);
    assert_eq!(policies.may_publish(&bot, OUTCOME, "/other").await.unwrap().answer, Answer::NoAnswer);
}
