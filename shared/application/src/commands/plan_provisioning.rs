//! A person asks for a plan: of a program, of a specification's newest version, or of an earlier run.

use std::sync::Arc;

use domain::aggregate::Scoped;
use domain::deployment_specification::{Declaration, SpecificationVersion};
use domain::provisioning_run::{RunSource, run_id};
use domain::{DeploymentSpecification, Environment, ProvisioningRun};
use events::{
    ConfigRef, EnvironmentId, Principal, Program, ProvisioningRunId, SecretRef, SpecificationKind, TenantId,
};
use ports::{Cx, PortError, ProgramSource, Store};
use serde::{Deserialize, Deserializer, Serialize};

use crate::declare::{Declared, Wanted, declare};
use crate::settings::Settings;
use crate::work::Fault;

/// The command.
pub struct PlanProvisioning {
    /// The store.
    pub store: Store,
    /// Resolves references to commits.
    pub programs: Arc<dyn ProgramSource>,
    /// Settings.
    pub settings: Arc<Settings>,
}

/// What to plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanRequest {
    /// Repeats of one request carry one id.
    pub request_id: String,
    /// Where.
    pub environment_id: EnvironmentId,
    /// A program; its reference is resolved before anything is declared.
    #[serde(default)]
    pub program: Option<ProgramReference>,
    /// A run to repeat.
    #[serde(default)]
    pub rerun_of: Option<ProvisioningRunId>,
    /// Configuration by reference.
    #[serde(default, deserialize_with = "exactly")]
    pub config_refs: Vec<ConfigRef>,
    /// Secrets by reference.
    #[serde(default, deserialize_with = "exactly")]
    pub secret_refs: Vec<SecretRef>,
}

/// A program at a branch, a tag or a commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProgramReference {
    /// URL or absolute path.
    pub repository: String,
    /// Folder.
    pub path: String,
    /// Branch, tag or commit.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// A reference in a command: unlike one in an event, it has no field that nobody knows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exact {
    key: String,
    #[serde(rename = "ref")]
    reference: String,
}

impl From<Exact> for ConfigRef {
    fn from(exact: Exact) -> ConfigRef {
        ConfigRef { key: exact.key, reference: exact.reference }
    }
}

impl From<Exact> for SecretRef {
    fn from(exact: Exact) -> SecretRef {
        SecretRef { key: exact.key, reference: exact.reference }
    }
}

fn exactly<'de, D: Deserializer<'de>, T: From<Exact>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Exact>::deserialize(from)?.into_iter().map(T::from).collect())
}

/// Why a request is no repetition of the one that had its id.
#[derive(Debug, thiserror::Error)]
#[error(
    "request {request:?} is already run {run}, of another program, environment or references; give a new requestId"
)]
pub struct OtherRequest {
    request: String,
    run: ProvisioningRunId,
}

impl domain::Refusal for OtherRequest {
    fn code(&self) -> &'static str {
        "request-conflict"
    }
}

/// Why a rerun was refused.
#[derive(Debug, thiserror::Error)]
#[error("run {run} is of environment {of}, not of {asked}; ask for its rerun in {of}")]
pub struct OtherEnvironment {
    run: ProvisioningRunId,
    of: EnvironmentId,
    asked: EnvironmentId,
}

impl domain::Refusal for OtherEnvironment {
    fn code(&self) -> &'static str {
        "rerun-other-environment"
    }
}

impl PlanProvisioning {
    /// Declares and queues the run.
    pub async fn run(
        &self,
        tenant: &TenantId,
        request: PlanRequest,
        by: Principal,
        cx: &Cx,
    ) -> Result<Declared, Fault> {
        if request.request_id.trim().is_empty() {
            return Err(Fault::Never("requestId is empty; give each request an id of its own".into()));
        }
        // load
        let environment = self.store.load::<Environment>(&request.environment_id).await?;
        let environment = environment.filter(|e| e.tenant == *tenant).ok_or_else(|| {
            let problem = format!(
                "environment {} is unknown; create it with `runtime-cloud environments create`",
                request.environment_id
            );
            Fault::Never(problem.into())
        })?;
        let declaration = match (&request.program, request.rerun_of) {
            (Some(program), None) => {
                // act: a reference moves, so it becomes a commit before anything is declared
                let commit = self.programs.resolve(tenant, &program.repository, &program.reference).await?;
                Declaration {
                    tenant: tenant.clone(),
                    project: environment.project.clone(),
                    environment: environment.id.clone(),
                    kind: SpecificationKind::Workload,
                    program: Program {
                        repository: program.repository.clone(),
                        path: program.path.clone(),
                        commit,
                    },
                    release: None,
                    strategy: None,
                    config_refs: request.config_refs,
                    secret_refs: request.secret_refs,
                }
            }
            (None, Some(rerun)) => self.declaration_of(tenant, rerun).await?,
            (Some(_), Some(_)) | (None, None) => {
                return Err(Fault::Never("give either program or rerunOf".into()));
            }
        };
        if let Some(run) = request.rerun_of
            && declaration.environment != environment.id
        {
            let (of, asked) = (declaration.environment, environment.id.clone());
            return Err(Fault::refused(OtherEnvironment { run, of, asked }));
        }
        // decide and commit
        let run = run_id(tenant, "manual", &request.request_id, 1);
        let wanted = Wanted {
            declaration: declaration.clone(),
            run,
            source: RunSource::Manual,
            requested_by: by,
            rerun_of: request.rerun_of,
        };
        let declared = declare(&self.store, &self.settings, wanted, cx).await?;
        // The same id for something else is no repetition.
        if !declared.new && !same(&declaration, &self.declaration_of(tenant, run).await?) {
            return Err(Fault::refused(OtherRequest { request: request.request_id, run }));
        }
        Ok(declared)
    }

    async fn declaration_of(
        &self,
        tenant: &TenantId,
        run: ProvisioningRunId,
    ) -> Result<Declaration, PortError> {
        let run = self.store.need::<ProvisioningRun>(&Scoped::new(tenant.clone(), run)).await?;
        let version = SpecificationVersion {
            tenant: tenant.clone(),
            id: run.specification,
            version: run.specification_version,
        };
        Ok(self.store.need::<DeploymentSpecification>(&version).await?.declaration.clone())
    }
}

/// Whether two declarations ask for the same; what belongs to the environment may have moved.
fn same(one: &Declaration, other: &Declaration) -> bool {
    one.environment == other.environment
        && one.program == other.program
        && one.release == other.release
        && one.config_refs == other.config_refs
        && one.secret_refs == other.secret_refs
}
