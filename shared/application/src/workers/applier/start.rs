//! What a start rests on: read again under the environment's lock, and compared with what was planned.

use std::collections::BTreeMap;

use domain::aggregate::Scoped;
use domain::deployment_specification::SpecificationVersion;
use domain::provisioning_run::{Failure, FailureReason};
use domain::receipt::PlanReceipt;
use domain::routing::{Answer, Authority};
use domain::{DeploymentSpecification, Environment, EnvironmentSlot, ProvisioningRun};
use ports::runner::{Access, ApplyJob, Job};
use ports::{Cx, PortError, Secret};

use super::{Applier, Claimed};
use crate::inputs::{InputError, Resolved, resolve};
use crate::work::Fault;
use crate::workers::planner::{need, question};

/// What a start needs of what the plan left.
pub(super) struct Needed {
    pub state: Option<Vec<u8>>,
    pub plan_file: Vec<u8>,
    pub stack_config: Vec<u8>,
    pub passphrase: Secret,
    /// What is gone for good, and what to restore.
    pub missing: Vec<String>,
}

impl Applier {
    /// What moved since the plan, or None (Rule 13).
    async fn moved(
        &self,
        claimed: &Claimed<'_>,
        planned: Option<PlanReceipt>,
        inputs: &Result<Resolved, String>,
    ) -> Result<Option<String>, Fault> {
        let store = &self.finisher.store;
        let run = claimed.run;
        let slot = Scoped::new(run.tenant.clone(), run.environment.clone());
        let slot = store.need::<EnvironmentSlot>(&slot).await?;
        let head = slot.state_of(run.specification).map(|h| h.digest.clone());
        if head != claimed.plan.state_head {
            return Ok(Some("the state has moved since it was planned".to_owned()));
        }
        let inputs = match inputs {
            Ok(inputs) => inputs,
            Err(problem) => return Ok(Some(problem.clone())),
        };
        let differences = claimed.plan.inputs.differences(&inputs.bound);
        if !differences.is_empty() {
            return Ok(Some(differences.join("; ")));
        }
        if let Err(refusal) = run.authority(self.clock.now()) {
            return Ok(Some(refusal.to_string()));
        }
        self.ineligible(claimed, planned).await
    }

    /// Why the policies of now don't let it through any more, or None.
    async fn ineligible(
        &self,
        claimed: &Claimed<'_>,
        planned: Option<PlanReceipt>,
    ) -> Result<Option<String>, Fault> {
        let Some(receipt) = planned else {
            return Ok(Some("its plan receipt is missing or was changed".to_owned()));
        };
        let asked = question(claimed.run, receipt.inputs.class, receipt.steps, &claimed.plan.summary);
        let verdict = self.policy.may_apply(&asked).await?;
        let by_policy = matches!(claimed.authority, Authority::Policy { .. });
        Ok(match verdict.answer {
            Answer::Forbid => Some(format!("policy {} forbids it now", verdict.policies.join(", "))),
            Answer::NoAnswer if by_policy => Some("no policy allows it any more".to_owned()),
            Answer::NoAnswer | Answer::Allow => None,
        })
    }

    /// What the program reads now, or which reference names nothing any more.
    pub(super) async fn inputs(&self, run: &ProvisioningRun) -> Result<Result<Resolved, String>, Fault> {
        let store = &self.finisher.store;
        let environment = store.need::<Environment>(&run.environment).await?;
        let version = SpecificationVersion {
            tenant: run.tenant.clone(),
            id: run.specification,
            version: run.specification_version,
        };
        let specification = store.need::<DeploymentSpecification>(&version).await?;
        match resolve(&specification, &environment, &*self.config, &*self.secrets, &*self.runner).await {
            Ok(inputs) => Ok(Ok(inputs)),
            Err(InputError::Port(e)) if e.is_temporary() => Err(e.into()),
            Err(e) => Ok(Err(ports::error::chain(&e))),
        }
    }

    /// The values that it was planned with, and the references of those that are no more: they go along for masking
    /// even where nothing is started any more, each for itself.
    pub(super) async fn to_mask(
        &self,
        claimed: &Claimed<'_>,
        inputs: Result<Resolved, String>,
    ) -> Result<(BTreeMap<String, Secret>, Vec<String>), Fault> {
        let planned = &claimed.plan.inputs.secrets;
        if let Ok(inputs) = inputs
            && inputs.bound.secrets == *planned
        {
            return Ok((inputs.secrets, vec![]));
        }
        let (mut secrets, mut lost) = (BTreeMap::new(), vec![]);
        for wanted in planned {
            match self.secrets.resolve(&claimed.run.tenant, &wanted.reference).await {
                Ok(Some(found)) if found.version == wanted.version => {
                    secrets.insert(wanted.key.clone(), found.value);
                }
                Err(e) if e.is_temporary() => return Err(e.into()),
                Ok(_) | Err(_) => lost.push(wanted.reference.clone()),
            }
        }
        Ok((secrets, lost))
    }

    /// Why it isn't started: something moved since the plan, or something that it needs is gone.
    pub(super) async fn refusal(
        &self,
        claimed: &Claimed<'_>,
        planned: Option<PlanReceipt>,
        inputs: &Result<Resolved, String>,
        needed: &Needed,
    ) -> Result<Option<Failure>, Fault> {
        if let Some(moved) = self.moved(claimed, planned, inputs).await? {
            let again = format!("plan again with `runtime-cloud plan --rerun {}`", claimed.run.id);
            let message = format!("{moved}; nothing was touched: {again}");
            return Ok(Some(Failure { reason: FailureReason::PlanStale, message }));
        }
        let missing = Some(needed.missing.join("; ")).filter(|missing| !missing.is_empty());
        Ok(missing.map(|missing| {
            let message = format!("{missing}; nothing was touched, so plan again after that");
            Failure { reason: FailureReason::ApplyFailed, message }
        }))
    }

    /// Reads what the plan left. What is gone for good is named: a start is refused with it, and an apply that runs
    /// already is followed without it.
    pub(super) async fn needed(&self, claimed: &Claimed<'_>) -> Result<Needed, Fault> {
        let (run, plan) = (claimed.run, claimed.plan);
        let artifacts = &*self.finisher.artifacts;
        let mut missing = vec![];
        let mut or_missing = |found: Result<Vec<u8>, PortError>| match found {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.is_temporary() => Err(Fault::from(e)),
            Err(e) => {
                missing.push(e.chain());
                Ok(None)
            }
        };
        let state = match &plan.state_head {
            Some(head) => or_missing(need(artifacts, "state", head).await)?,
            None => None,
        };
        let plan_file = or_missing(need(artifacts, "plan file", &plan.plan_digest).await)?;
        let stack_config = or_missing(need(artifacts, "stack configuration", &plan.stack_config).await)?;
        // The plan was made with it: a new one would open nothing.
        let passphrase = match self.secrets.passphrase(&run.tenant, &run.environment, false).await {
            Ok(passphrase) => passphrase,
            Err(e) if e.is_temporary() => return Err(e.into()),
            Err(e) => {
                missing.push(e.chain());
                Secret::new(String::new())
            }
        };
        Ok(Needed {
            state,
            plan_file: plan_file.unwrap_or_default(),
            stack_config: stack_config.unwrap_or_default(),
            passphrase,
            missing,
        })
    }

    pub(super) fn job(
        &self,
        claimed: &Claimed<'_>,
        to_mask: (BTreeMap<String, Secret>, Vec<String>),
        needed: Needed,
        changing: Vec<String>,
        may_start: bool,
        cx: &Cx,
    ) -> ApplyJob {
        let run = claimed.run;
        let (secrets, lost_secrets) = to_mask;
        ApplyJob {
            job: Job {
                run: run.id,
                attempt: 1,
                tenant: run.tenant.clone(),
                environment: run.environment.clone(),
                program: run.program.clone(),
                config: BTreeMap::new(),
                secrets,
                secret_versions: claimed.plan.inputs.secrets.clone(),
                inputs: claimed.plan.inputs_hash.clone(),
                identity: claimed.plan.inputs.identity.clone(),
                access: Access::default(),
                passphrase: needed.passphrase,
                state: needed.state,
                deadline: cx.now + self.limit(&changing),
            },
            plan_file: needed.plan_file,
            stack_config: needed.stack_config,
            changing,
            since: claimed.since,
            lost_secrets,
            may_start,
        }
    }
}
