//! Asks Cedar. A policy that can't be evaluated never widens what is allowed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use async_trait::async_trait;
use cedar_policy::{
    Authorizer, Context, Decision, Effect, Entities, Entity, EntityId, EntityTypeName, EntityUid, PolicySet,
    Request, RestrictedExpression, Schema,
};
use domain::plan::PlanStep;
use domain::routing::{Answer, Verdict};
use events::{Principal, ProvisioningKind, is_service};
use ports::policy_engine::{ApplyQuestion, PolicyEngine};
use ports::{PortError, policy_engine};

use crate::error::PolicyError;
use crate::load;

const PROTECTED: &str = include_str!("../protected-types.txt");

/// What a person is beyond being one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Looks after environments.
    Operator,
    /// Looks after the installation.
    Admin,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// The policy engine.
pub struct CedarPolicies {
    schema: Schema,
    policies: PolicySet,
    protected: Vec<String>,
    roles: BTreeMap<Principal, BTreeSet<Role>>,
}

impl CedarPolicies {
    /// The default policies, and those of a folder's *.cedar files.
    pub fn load(extra: Option<&Path>) -> Result<CedarPolicies, PolicyError> {
        let (schema, policies) = load::load(extra)?;
        let lines = PROTECTED.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        Ok(CedarPolicies {
            schema,
            policies,
            protected: lines.map(str::to_owned).collect(),
            roles: BTreeMap::new(),
        })
    }

    /// Protects further resource types; an entry may end with `*`.
    #[must_use]
    pub fn protecting(mut self, types: impl IntoIterator<Item = String>) -> CedarPolicies {
        self.protected.extend(types);
        self
    }

    /// Gives a person a role.
    #[must_use]
    pub fn with_role(mut self, person: Principal, role: Role) -> CedarPolicies {
        self.roles.entry(person).or_default().insert(role);
        self
    }

    /// Names of the policies, in their order.
    pub fn names(&self) -> BTreeSet<String> {
        self.policies.policies().map(|p| p.id().to_string()).collect()
    }

    fn principal(&self, principal: &Principal) -> Result<Vec<Entity>, PortError> {
        let name = principal.as_str();
        if is_service(principal) {
            return Ok(vec![Entity::new_no_attrs(uid("Service", name)?, HashSet::new())]);
        }
        let roles = self.roles.get(principal).into_iter().flatten();
        let roles = roles.map(|role| uid("Role", role.name())).collect::<Result<HashSet<_>, _>>()?;
        let mut entities = vec![Entity::new_no_attrs(uid("User", name)?, roles.clone())];
        entities.extend(roles.into_iter().map(|role| Entity::new_no_attrs(role, HashSet::new())));
        Ok(entities)
    }

    fn ask(
        &self,
        asker: Vec<Entity>,
        action: &str,
        resource: Entity,
        context: Vec<(String, RestrictedExpression)>,
    ) -> Result<Verdict, PortError> {
        let principal = asker.first().map(Entity::uid).ok_or_else(|| defect("nobody asks"))?;
        let action = uid("Action", action)?;
        let context = Context::from_pairs(context).map_err(defect)?;
        let request =
            Request::new(principal, action, resource.uid(), context, Some(&self.schema)).map_err(defect)?;
        let entities = asker.into_iter().chain([resource]);
        let entities = Entities::from_entities(entities, Some(&self.schema)).map_err(defect)?;
        let response = Authorizer::new().is_authorized(&request, &self.policies, &entities);

        let mut determining: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
        determining.sort();
        let mut errors = vec![];
        let mut open = false;
        for error in response.diagnostics().errors() {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            let forbids =
                self.policies.policy(error.policy_id()).is_none_or(|p| p.effect() == Effect::Forbid);
            open |= forbids;
            let means =
                if forbids { "it might forbid this, so nothing is allowed" } else { "it allows nothing" };
            errors.push(format!(
                "policy {} can't be evaluated: {}; {means}",
                error.policy_id(),
                error.inner()
            ));
        }
        errors.sort();
        let answer = match response.decision() {
            Decision::Allow if open => Answer::NoAnswer,
            Decision::Allow => Answer::Allow,
            Decision::Deny if determining.is_empty() => Answer::NoAnswer,
            Decision::Deny => Answer::Forbid,
        };
        let policies = if answer == Answer::NoAnswer { vec![] } else { determining };
        Ok(Verdict { answer, policies, errors })
    }
}

#[async_trait]
impl PolicyEngine for CedarPolicies {
    async fn may_apply(&self, question: &ApplyQuestion) -> Result<Verdict, PortError> {
        let string = |s: &str| RestrictedExpression::new_string(s.to_owned());
        let class = uid("Class", question.class.as_str())?;
        let attributes = HashMap::from([
            ("class".to_owned(), RestrictedExpression::new_entity_uid(class)),
            ("tenant".to_owned(), string(question.tenant.as_str())),
            ("project".to_owned(), string(question.project.as_str())),
        ]);
        let environment = uid("Environment", question.environment.as_str())?;
        let environment = Entity::new(environment, attributes, HashSet::new()).map_err(defect)?;
        let asker = self.principal(&question.requested_by)?;
        self.ask(asker, action(question.kind), environment, plan(question))
    }

    async fn may_publish(
        &self,
        principal: &Principal,
        topic: &str,
        source: &str,
    ) -> Result<Verdict, PortError> {
        let topic = Entity::new_no_attrs(uid("Topic", topic)?, HashSet::new());
        let source = RestrictedExpression::new_string(source.to_owned());
        self.ask(self.principal(principal)?, "publish", topic, vec![("source".to_owned(), source)])
    }

    fn protected_types(&self) -> &[String] {
        &self.protected
    }
}

const fn action(kind: ProvisioningKind) -> &'static str {
    match kind {
        ProvisioningKind::Promotion => "apply-promotion",
        ProvisioningKind::Baseline => "apply-baseline",
        ProvisioningKind::Reconciliation => "apply-reconciliation",
        ProvisioningKind::PoolResize => "apply-pool-resize",
        ProvisioningKind::Manual => "apply-manual",
    }
}

fn plan(question: &policy_engine::ApplyQuestion) -> Vec<(String, RestrictedExpression)> {
    let types = |of: &dyn Fn(&PlanStep) -> bool| {
        let types: BTreeSet<&str> =
            question.steps.iter().filter(|s| of(s)).map(|s| s.resource_type.as_str()).collect();
        RestrictedExpression::new_set(
            types.into_iter().map(|t| RestrictedExpression::new_string(t.to_owned())),
        )
    };
    let summary = &question.summary;
    let counts = [
        ("adds", summary.adds),
        ("changes", summary.changes),
        ("deletes", summary.deletes),
        ("replaces", summary.replaces),
        ("unchanged", summary.unchanged),
        ("protected", summary.protected),
    ];
    let counts = counts.map(|(name, n)| (name.to_owned(), RestrictedExpression::new_long(i64::from(n))));
    let types = [("resourceTypes", types(&|_| true)), ("deletedTypes", types(&|s| s.op.deletes()))];
    counts.into_iter().chain(types.map(|(name, set)| (name.to_owned(), set))).collect()
}

/// Built, never parsed: a name with quotes or `::` in it stays one name.
fn uid(kind: &str, id: &str) -> Result<EntityUid, PortError> {
    let kind: EntityTypeName = kind.parse().map_err(defect)?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

fn defect(problem: impl ToString) -> PortError {
    PortError::broken(
        format!("the policies can't be asked: {}", problem.to_string()),
        "this is a defect, report it",
    )
}
