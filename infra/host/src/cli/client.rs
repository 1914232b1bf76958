//! The API of a host or of a stack, from the command line.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
    /// Whether the same question may have another answer soon: nobody answered, or not as they should.
    fn passes(&self) -> bool {
        matches!(self.code, exit::NO_HOST | exit::FAILED)
    }

    /// The same with what to do where nobody knows whether the question has arrived.
    pub fn or_else(self, next: &str) -> CliError {
        if self.passes() { CliError::new(self.code, format!("{}; {next}", self.message)) } else { self }
    }

    /// It failed for this reason.
    pub fn failed(error: impl std::error::Error + 'static) -> CliError {
        CliError::new(exit::FAILED, ports::error::chain(&error))
    }
}

/// A client for one person.
pub struct Client {
    agent: ureq::Agent,
    to: To,
}

/// Whom it asks.
enum To {
    /// The host on a data folder, with the person's token.
    Host { data: PathBuf, token: String },
    /// A stack somewhere else: it answers later, and each question costs.
    Stack(Server),
}

/// Between two looks at what is somewhere else.
const FAR_PAUSE: Duration = Duration::from_secs(1);
/// How long what is somewhere else may give no answer to who waits.
const PATIENCE: Duration = Duration::from_secs(120);

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

fn working(data: &Path) -> Result<Address, CliError> {
    Address::of(data).ok_or_else(|| {
        let message =
            format!("no host works on {}; start one with `runtime-cloud up --data {0}`", data.display());
        CliError::new(exit::NO_HOST, message)
    })
}

impl Client {
    /// Of the host that works on a data folder.
    pub fn of(data: &Path, person: &Principal, tenant: &TenantId) -> Result<Client, CliError> {
        working(data)?;
        let person = people::token_of(data, person, tenant, &RandomIds).map_err(CliError::failed)?;
        Ok(Client { agent: agent(true), to: To::Host { data: data.to_owned(), token: person.token } })
    }

    /// Of a deployed API.
    pub fn at(server: &Server) -> Result<Client, CliError> {
        // Without a token nothing is begun.
        server.token()?;
        Ok(Client { agent: agent(server.is_here()), to: To::Stack(server.clone()) })
    }

    fn far(&self) -> bool {
        matches!(self.to, To::Stack(_))
    }

    /// Where to ask and what to show there, anew for each request: a host may be gone, and its port another's; a token
    /// may have been renewed.
    fn way(&self) -> Result<(String, String), CliError> {
        let (url, token) = match &self.to {
            To::Host { data, token } => (working(data)?.url, token.clone()),
            To::Stack(server) => (server.url.clone(), server.token()?),
        };
        Ok((url, format!("Bearer {token}")))
    }

    /// How long to wait between two looks, where a host next door would be asked again after `near`.
    pub fn pause(&self, near: Duration) -> Duration {
        if self.far() { FAR_PAUSE } else { near }
    }

    fn text(
        &self,
        url: &str,
        result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<String, CliError> {
        let mut response = result.map_err(|e| {
            let what = if self.far() { "API" } else { "host" };
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

    /// GET, as JSON.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        parsed(&self.get_text(path)?)
    }

    /// The same, from whoever waits for something to happen: where the API is somewhere else, one that doesn't answer
    /// now is asked again for a while.
    pub fn look<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.get(path) {
                // Whoever renews the token may be writing its file.
                Err(e) if self.far() && (e.passes() || e.code == exit::USAGE) && Instant::now() < until => {
                    std::thread::sleep(FAR_PAUSE);
                }
                other => return other,
            }
        }
    }

    /// GET, as text.
    pub fn get_text(&self, path: &str) -> Result<String, CliError> {
        let (url, bearer) = self.way()?;
        let request = self.agent.get(format!("{url}{path}")).header("authorization", bearer);
        self.text(&url, request.call())
    }

    /// POST.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CliError> {
        let body = serde_json::to_vec(body).map_err(CliError::failed)?;
        let (url, bearer) = self.way()?;
        let request = self.agent.post(format!("{url}{path}")).header("authorization", bearer);
        let request = request.header("content-type", "application/json");
        parsed(&self.text(&url, request.send(&body[..]))?)
    }

    /// Publishes an inbound event.
    pub fn publish(&self, event: &Value) -> Result<(), CliError> {
        self.post::<Value>("/v1/events", event).map(drop)
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, CliError> {
    let text = if text.is_empty() { "null" } else { text };
    serde_json::from_str(text).map_err(CliError::failed)
}

/// An answer that is no problem, as something before the API gives.
fn unread(status: u16, text: &str) -> String {
    format!("the server answered {status}: {}; see that its URL is right", text.trim())
}

/// One part of a path.
pub fn part(text: &str) -> String {
    domain::aggregate::encode(text)
}
