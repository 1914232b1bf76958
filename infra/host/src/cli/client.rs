//! The API of a host or of a stack, from the command line.

use std::path::Path;
use std::time::Duration;

use embedded::RandomIds;
use events::{Principal, TenantId};
use http_api::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::exit;
use super::server::Server;
use crate::host::Address;
use crate::people;

/// What a command ends with when it doesn't end well.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CliError {
    /// The exit code.
    pub code: i32,
    message: String,
}

impl CliError {
    /// A message with its exit code.
    pub fn new(code: i32, message: impl Into<String>) -> CliError {
        CliError { code, message: message.into() }
    }
    /// It failed for this reason.
    pub fn failed(error: impl std::error::Error + 'static) -> CliError {
        CliError::new(exit::FAILED, ports::error::chain(&error))
    }
}

/// A client for one person.
pub struct Client {
    agent: ureq::Agent,
    url: String,
    token: String,
    /// A stack somewhere else: it answers later, and each question costs.
    far: bool,
}

/// Between two looks at what is somewhere else.
const FAR_PAUSE: Duration = Duration::from_secs(1);

fn agent(plain: bool) -> ureq::Agent {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        // A token is for who was named, and for nobody who is named by them.
        .max_redirects(0)
        .https_only(!plain)
        .timeout_global(Some(Duration::from_secs(60)));
    if plain {
        config = config.proxy(None);
    }
    config.build().new_agent()
}

impl Client {
    /// Of the host that works on a data folder.
    pub fn of(data: &Path, person: &Principal, tenant: &TenantId) -> Result<Client, CliError> {
        let none = || {
            let message =
                format!("no host works on {}; start one with `runtime-cloud up --data {0}`", data.display());
            CliError::new(exit::NO_HOST, message)
        };
        let bytes = std::fs::read(Address::file(data)).map_err(|_| none())?;
        let address: Address = serde_json::from_slice(&bytes).map_err(|_| none())?;
        let person = people::token_of(data, person, tenant, &RandomIds).map_err(CliError::failed)?;
        Ok(Client { agent: agent(true), url: address.url, token: person.token, far: false })
    }

    /// Of a deployed API.
    pub fn at(server: &Server) -> Result<Client, CliError> {
        let (agent, token) = (agent(server.is_here()), server.token()?);
        Ok(Client { agent, url: server.url.clone(), token, far: true })
    }

    /// How long to wait between two looks, where a host next door would be asked again after `near`.
    pub fn pause(&self, near: Duration) -> Duration {
        if self.far { FAR_PAUSE } else { near }
    }

    fn answer<T: DeserializeOwned>(
        &self,
        result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, CliError> {
        let text = self.text(result)?;
        let text = if text.is_empty() { "null" } else { &text };
        serde_json::from_str(text).map_err(CliError::failed)
    }

    fn text(
        &self,
        result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<String, CliError> {
        let mut response = result.map_err(|e| {
            let (url, what) = (&self.url, if self.far { "API" } else { "host" });
            let message = format!("the {what} at {url} doesn't answer ({e}); is it running?");
            CliError::new(exit::NO_HOST, message)
        })?;
        let status = response.status().as_u16();
        let limit = 64 * 1024 * 1024;
        let text =
            response.body_mut().with_config().limit(limit).read_to_string().map_err(CliError::failed)?;
        if status < 300 {
            return Ok(text);
        }
        let problem: Problem = serde_json::from_str(&text)
            .unwrap_or_else(|_| Problem::new(status, "failed", unread(status, &text)));
        let code = match status {
            400 | 401 | 403 | 405 | 409 | 413 | 415 | 422 | 501 => exit::REFUSED,
            404 => exit::NOT_FOUND,
            _ => exit::FAILED,
        };
        Err(CliError::new(code, problem.detail))
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// GET, as JSON.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        let request = self.agent.get(format!("{}{path}", self.url)).header("authorization", self.bearer());
        self.answer(request.call())
    }

    /// GET, as text.
    pub fn get_text(&self, path: &str) -> Result<String, CliError> {
        let request = self.agent.get(format!("{}{path}", self.url)).header("authorization", self.bearer());
        self.text(request.call())
    }

    /// POST.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CliError> {
        let body = serde_json::to_vec(body).map_err(CliError::failed)?;
        let request = self.agent.post(format!("{}{path}", self.url)).header("authorization", self.bearer());
        self.answer(request.header("content-type", "application/json").send(&body[..]))
    }

    /// Publishes an inbound event.
    pub fn publish(&self, event: &Value) -> Result<(), CliError> {
        self.post::<Value>("/v1/events", event).map(drop)
    }
}

/// An answer that is no problem, as something before the API gives.
fn unread(status: u16, text: &str) -> String {
    format!("the server answered {status}: {}; see that its URL is right", text.trim())
}

/// One part of a path.
pub fn part(text: &str) -> String {
    domain::aggregate::encode(text)
}
