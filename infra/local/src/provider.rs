//! The provider's side of Pulumi's protocol.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use pulumi_gestalt_proto::pulumi::pulumirpc::resource_provider_server::ResourceProvider;
use pulumi_gestalt_proto::pulumi::pulumirpc::{
    CallRequest, CallResponse, CheckFailure, CheckRequest, CheckResponse, ConfigureRequest,
    ConfigureResponse, ConstructRequest, ConstructResponse, CreateRequest, CreateResponse, DeleteRequest,
    DiffRequest, DiffResponse, ErrorResourceInitFailed, GetMappingRequest, GetMappingResponse,
    GetMappingsRequest, GetMappingsResponse, GetSchemaRequest, GetSchemaResponse, InvokeRequest,
    InvokeResponse, ParameterizeRequest, ParameterizeResponse, PluginAttach, PluginInfo,
    ProviderHandshakeRequest, ProviderHandshakeResponse, ReadRequest, ReadResponse, UpdateRequest,
    UpdateResponse,
};
use tonic::{Code, Request, Response, Status};

use crate::check::{Failure, Failures};
use crate::difference::differ;
use crate::error::LocalError;
use crate::folder::Cancel;
use crate::property::{Properties, properties, structure};
use crate::root::Root;
use crate::schema::{FILE, SERVICE, VERSION, schema};
use crate::{file, service};

/// What an operation made of a resource.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) id: String,
    pub(crate) inputs: Properties,
    pub(crate) outputs: Properties,
    /// Set when the resource is there but doesn't work: it is kept and repaired next time.
    pub(crate) problem: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Type {
    Service,
    File,
}

impl Type {
    /// From the request's own type, or the URN of an engine that doesn't send it.
    fn of(r#type: &str, urn: &str) -> Result<Self, Status> {
        let from_urn = || urn.split("::").nth(2).and_then(|types| types.rsplit('$').next());
        let name = if r#type.is_empty() { from_urn().unwrap_or_default() } else { r#type };
        match name {
            SERVICE => Ok(Self::Service),
            FILE => Ok(Self::File),
            other => Err(status(&LocalError::UnknownType(other.to_owned()))),
        }
    }

    fn fixed(self) -> &'static [&'static str] {
        match self {
            Self::Service => &service::FIXED,
            Self::File => &file::FIXED,
        }
    }
}

/// The provider; everything it knows is on disk.
#[derive(Debug, Default)]
pub(crate) struct Provider {
    pub(crate) cancel: Arc<Cancel>,
}

impl Provider {
    /// Works in a thread of its own: a caller who goes away doesn't stop what was begun.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root, &Cancel) -> Result<T, LocalError> + Send + 'static,
    ) -> Result<T, Status> {
        let cancel = Arc::clone(&self.cancel);
        let result = tokio::task::spawn_blocking(move || work(&Root::from_environment()?, &cancel)).await;
        match result {
            Ok(result) => result.map_err(|error| status(&error)),
            Err(error) => {
                Err(Status::internal(format!("the provider failed: {error}; report this as a bug")))
            }
        }
    }
}

fn status(error: &LocalError) -> Status {
    Status::new(Code::Unknown, error.to_string())
}

/// google.rpc.Status, which carries the details of an error.
#[derive(Clone, PartialEq, prost::Message)]
struct Detailed {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// The answer for a resource that is there but doesn't work.
fn unwell(done: Done, problem: String) -> Status {
    let failed = ErrorResourceInitFailed {
        id: done.id,
        properties: Some(structure(done.outputs)),
        inputs: Some(structure(done.inputs)),
        reasons: vec![problem.clone()],
        ..Default::default()
    };
    let detail = prost_types::Any {
        type_url: "type.googleapis.com/pulumirpc.ErrorResourceInitFailed".to_owned(),
        value: failed.encode_to_vec(),
    };
    let detailed = Detailed { code: Code::Unknown.into(), message: problem.clone(), details: vec![detail] };
    Status::with_details(Code::Unknown, problem, detailed.encode_to_vec().into())
}

fn limit(seconds: f64) -> Option<Duration> {
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

fn checked((inputs, failures): (Properties, Vec<Failure>)) -> Response<CheckResponse> {
    let failures = failures
        .into_iter()
        .map(|failure| CheckFailure { property: failure.property, reason: failure.reason });
    Response::new(CheckResponse { inputs: Some(structure(inputs)), failures: failures.collect() })
}

fn refused<T>(what: &str) -> Result<Response<T>, Status> {
    Err(Status::unimplemented(format!("the local provider has no {what}")))
}

#[tonic::async_trait]
impl ResourceProvider for Provider {
    async fn handshake(
        &self,
        _: Request<ProviderHandshakeRequest>,
    ) -> Result<Response<ProviderHandshakeResponse>, Status> {
        Ok(Response::new(ProviderHandshakeResponse { accept_secrets: true, ..Default::default() }))
    }

    async fn get_schema(
        &self,
        request: Request<GetSchemaRequest>,
    ) -> Result<Response<GetSchemaResponse>, Status> {
        match request.into_inner().version {
            0 => Ok(Response::new(GetSchemaResponse { schema: schema() })),
            other => Err(Status::invalid_argument(format!("the schema's version is 0, not {other}"))),
        }
    }

    async fn check_config(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        let news = properties(request.into_inner().news);
        let mut failures = Failures::default();
        failures.unknown(&news, "", &["version", "pluginDownloadURL", "pluginChecksums"]);
        Ok(checked((news, failures.into_list())))
    }

    async fn diff_config(&self, _: Request<DiffRequest>) -> Result<Response<DiffResponse>, Status> {
        // The provider has no settings, so nothing of it can replace the resources.
        Ok(Response::new(differ(Properties::new(), Properties::new(), &[], &[])))
    }

    async fn configure(&self, _: Request<ConfigureRequest>) -> Result<Response<ConfigureResponse>, Status> {
        self.work(|_, _| Ok(())).await?;
        Ok(Response::new(ConfigureResponse {
            accept_secrets: true,
            supports_preview: true,
            ..Default::default()
        }))
    }

    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        let request = request.into_inner();
        let (olds, news) = (properties(request.olds), properties(request.news));
        Ok(checked(match Type::of(&request.r#type, &request.urn)? {
            Type::Service => service::check(&request.urn, &olds, news),
            Type::File => file::check(news),
        }))
    }

    async fn diff(&self, request: Request<DiffRequest>) -> Result<Response<DiffResponse>, Status> {
        let request = request.into_inner();
        let fixed = Type::of(&request.r#type, &request.urn)?.fixed();
        let old = properties(request.old_inputs.or(request.olds));
        Ok(Response::new(differ(old, properties(request.news), fixed, &request.ignore_changes)))
    }

    async fn create(&self, request: Request<CreateRequest>) -> Result<Response<CreateResponse>, Status> {
        let CreateRequest { urn, properties: inputs, timeout, preview, r#type, .. } = request.into_inner();
        let (r#type, inputs) = (Type::of(&r#type, &urn)?, properties(inputs));
        let answer = |id, outputs| {
            Ok(Response::new(CreateResponse {
                id,
                properties: Some(structure(outputs)),
                ..Default::default()
            }))
        };
        if preview {
            return answer(String::new(), self.preview(r#type, inputs).await?);
        }
        let mut done = self
            .work(move |root, cancel| match r#type {
                Type::Service => service::create(root, &urn, inputs, limit(timeout), cancel),
                Type::File => file::write(root, &urn, inputs, true, cancel),
            })
            .await?;
        match done.problem.take() {
            Some(problem) => Err(unwell(done, problem)),
            None => answer(done.id, done.outputs),
        }
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponse>, Status> {
        let ReadRequest { id, urn, inputs, properties: outputs, r#type, .. } = request.into_inner();
        let r#type = Type::of(&r#type, &urn)?;
        let state = properties(inputs.or(outputs));
        let found = self
            .work(move |root, cancel| match r#type {
                Type::Service => service::read(root, &id, &state, cancel),
                Type::File => file::read(root, &id, &state),
            })
            .await?;
        let Some(mut done) = found else { return Ok(Response::new(ReadResponse::default())) };
        match done.problem.take() {
            Some(problem) => Err(unwell(done, problem)),
            None => Ok(Response::new(ReadResponse {
                id: done.id,
                properties: Some(structure(done.outputs)),
                inputs: Some(structure(done.inputs)),
                ..Default::default()
            })),
        }
    }

    async fn update(&self, request: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        let UpdateRequest { urn, news, timeout, preview, r#type, .. } = request.into_inner();
        let (r#type, inputs) = (Type::of(&r#type, &urn)?, properties(news));
        let answer = |outputs| {
            Ok(Response::new(UpdateResponse { properties: Some(structure(outputs)), ..Default::default() }))
        };
        if preview {
            return answer(self.preview(r#type, inputs).await?);
        }
        let mut done = self
            .work(move |root, cancel| match r#type {
                Type::Service => service::update(root, &urn, inputs, limit(timeout), cancel),
                Type::File => file::write(root, &urn, inputs, false, cancel),
            })
            .await?;
        match done.problem.take() {
            Some(problem) => Err(unwell(done, problem)),
            None => answer(done.outputs),
        }
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<()>, Status> {
        let DeleteRequest { id, urn, properties: outputs, r#type, .. } = request.into_inner();
        let state = properties(outputs);
        let r#type = Type::of(&r#type, &urn)?;
        self.work(move |root, cancel| match r#type {
            Type::Service => service::delete(root, &id, &state, cancel),
            Type::File => file::delete(root, &id, &state, cancel),
        })
        .await
        .map(Response::new)
    }

    async fn cancel(&self, _: Request<()>) -> Result<Response<()>, Status> {
        self.cancel.set();
        Ok(Response::new(()))
    }

    async fn get_plugin_info(&self, _: Request<()>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo { version: VERSION.to_owned() }))
    }

    async fn parameterize(
        &self,
        _: Request<ParameterizeRequest>,
    ) -> Result<Response<ParameterizeResponse>, Status> {
        refused("parameters")
    }

    async fn invoke(&self, _: Request<InvokeRequest>) -> Result<Response<InvokeResponse>, Status> {
        refused("functions")
    }

    async fn call(&self, _: Request<CallRequest>) -> Result<Response<CallResponse>, Status> {
        refused("methods")
    }

    async fn construct(&self, _: Request<ConstructRequest>) -> Result<Response<ConstructResponse>, Status> {
        refused("components")
    }

    async fn attach(&self, _: Request<PluginAttach>) -> Result<Response<()>, Status> {
        Ok(Response::new(()))
    }

    async fn get_mapping(
        &self,
        _: Request<GetMappingRequest>,
    ) -> Result<Response<GetMappingResponse>, Status> {
        refused("mappings")
    }

    async fn get_mappings(
        &self,
        _: Request<GetMappingsRequest>,
    ) -> Result<Response<GetMappingsResponse>, Status> {
        refused("mappings")
    }
}

impl Provider {
    async fn preview(&self, r#type: Type, inputs: Properties) -> Result<Properties, Status> {
        self.work(move |root, _| {
            Ok(match r#type {
                Type::Service => service::preview(root, inputs),
                Type::File => file::preview(root, inputs),
            })
        })
        .await
    }
}
