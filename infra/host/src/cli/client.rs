//! The host's API, from the command line.

use std::path::Path;
use std::time::Duration;

use embedded::RandomIds;
use events::{Principal, TenantId};
use http_api::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::exit;
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
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .new_agent();
        Ok(Client { agent, url: address.url, token: person.token })
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
            let message = format!("the host at {} doesn't answer ({e}); is it running?", self.url);
            CliError::new(exit::NO_HOST, message)
        })?;
        let status = response.status().as_u16();
        let limit = 64 * 1024 * 1024;
        let text =
            response.body_mut().with_config().limit(limit).read_to_string().map_err(CliError::failed)?;
        if status < 400 {
            return Ok(text);
        }
        let problem: Problem =
            serde_json::from_str(&text).unwrap_or_else(|_| Problem::new(status, "failed", text.trim()));
        let code = match status {
            400 | 401 | 403 | 405 | 409 | 413 | 415 | 422 => exit::REFUSED,
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

/// One part of a path.
pub fn part(text: &str) -> String {
    domain::aggregate::encode(text)
}
