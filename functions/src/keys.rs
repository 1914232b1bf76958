//! The keys of an issuer, from its key set. They are kept by their ids: an unknown id makes them be fetched again, at
//! most once a minute; an issuer that is down takes none of them away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use ports::Clock;
use reqwest::Client;
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::door::DoorError;

/// A key that checks tokens, with the one algorithm that it is for.
pub struct Key {
    /// What checks.
    pub key: DecodingKey,
    /// What for.
    pub algorithm: Algorithm,
}

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoKey {
    /// The issuer has none of that id.
    Unknown,
    /// Nobody knows: the key set can't be had. Why, and where it was looked for.
    Unavailable(String),
}

/// The keys of an issuer.
pub struct Keys {
    issuer: String,
    /// Where they are; None asks the issuer.
    url: Option<String>,
    client: Client,
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    keys: HashMap<String, Arc<Key>>,
    asked: Option<DateTime<Utc>>,
    /// The last time that they came.
    came: Option<DateTime<Utc>>,
    /// Why they did not come the last time.
    failed: Option<String>,
}

/// Between two questions to the issuer.
const PAUSE: TimeDelta = TimeDelta::minutes(1);
/// After so long they are fetched again, whoever asks: a key that the issuer took back ends.
const STALE: TimeDelta = TimeDelta::hours(1);
/// An issuer that says nothing for so long is down.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest key set.
const LARGEST: usize = 1024 * 1024;

/// Whether keys may come from there: over TLS, or from this machine.
fn is_safe(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let here = url.host_str().is_some_and(|h| h == "localhost" || h == "127.0.0.1" || h == "[::1]");
    url.scheme() == "https" || url.scheme() == "http" && here
}

impl Keys {
    /// Of an issuer; `url` where it doesn't say itself where its keys are.
    pub fn of(issuer: String, url: Option<String>, clock: Arc<dyn Clock>) -> Result<Keys, DoorError> {
        if let Some(unsafe_one) = [Some(&issuer), url.as_ref()].into_iter().flatten().find(|u| !is_safe(u)) {
            return Err(DoorError::Issuer(unsafe_one.clone()));
        }
        // Another provider that is there already is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client::builder()
            .timeout(PATIENCE)
            .redirect(Policy::none())
            .build()
            .map_err(|e| DoorError::Client(e.to_string()))?;
        Ok(Keys { issuer, url, client, clock, kept: Mutex::default() })
    }

    /// The key of an id.
    pub async fn key(&self, id: &str) -> Result<Arc<Key>, NoKey> {
        let mut kept = self.kept.lock().await;
        let now = self.clock.now();
        let stale = kept.came.is_none_or(|came| now - came > STALE);
        let may_ask = kept.asked.is_none_or(|asked| now - asked >= PAUSE);
        if may_ask && (stale || !kept.keys.contains_key(id)) {
            kept.asked = Some(now);
            match self.fetch().await {
                Ok(keys) => {
                    *kept = Kept { keys, asked: Some(now), came: Some(now), failed: None };
                }
                Err(why) => {
                    tracing::warn!(issuer = self.issuer, why, "the key set can't be had; known keys stay");
                    kept.failed = Some(why);
                }
            }
        }
        match (kept.keys.get(id), &kept.failed) {
            (Some(key), _) => Ok(Arc::clone(key)),
            (None, Some(why)) => Err(NoKey::Unavailable(why.clone())),
            (None, None) => Err(NoKey::Unknown),
        }
    }

    async fn fetch(&self) -> Result<HashMap<String, Arc<Key>>, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let url = self.place().await?;
        let bytes = self.get(&url).await?.ok_or_else(|| format!("there is nothing at {url}"))?;
        let set: Set = serde_json::from_slice(&bytes).map_err(|e| format!("{url} holds no key set: {e}"))?;
        let keys: HashMap<_, _> = set.keys.into_iter().filter_map(usable).collect();
        if keys.is_empty() {
            return Err(format!("{url} has no key for RS256, ES256 or EdDSA with an id"));
        }
        Ok(keys)
    }

    /// Where the keys are: as was set, as the issuer says, or where they usually are.
    async fn place(&self) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Discovered {
            issuer: String,
            jwks_uri: String,
        }
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let base = self.issuer.trim_end_matches('/');
        let Some(bytes) = self.get(&format!("{base}/.well-known/openid-configuration")).await? else {
            return Ok(format!("{base}/.well-known/jwks.json"));
        };
        let told: Discovered = serde_json::from_slice(&bytes)
            .map_err(|e| format!("{base} describes itself in a way that can't be read: {e}"))?;
        if told.issuer != self.issuer {
            return Err(format!("{base} says that it is issuer {}", told.issuer));
        }
        if !is_safe(&told.jwks_uri) {
            return Err(format!("{base} has its keys at {}, which is not https", told.jwks_uri));
        }
        Ok(told.jwks_uri)
    }

    /// What is at an address; None where there is nothing.
    async fn get(&self, url: &str) -> Result<Option<Vec<u8>>, String> {
        let failed = |e: reqwest::Error| format!("{url} doesn't answer: {}", ports::error::chain(&e));
        let mut answer = self.client.get(url).send().await.map_err(failed)?;
        if answer.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !answer.status().is_success() {
            return Err(format!("{url} answers {}", answer.status()));
        }
        let mut bytes = vec![];
        while let Some(more) = answer.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&more);
            if bytes.len() > LARGEST {
                return Err(format!("{url} answers more than {LARGEST} bytes"));
            }
        }
        Ok(Some(bytes))
    }
}

/// A key that can check tokens. Others of the set are for something else: encryption, or another algorithm.
fn usable(key: Value) -> Option<(String, Arc<Key>)> {
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    let id = jwk.common.key_id.clone()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|u| *u != PublicKeyUse::Signature) {
        return None;
    }
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return None,
    };
    if jwk.common.key_algorithm.is_some_and(|said| said != KeyAlgorithm::from(algorithm)) {
        return None;
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    Some((id, Arc::new(Key { key, algorithm })))
}
