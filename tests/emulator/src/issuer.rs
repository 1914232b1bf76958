//! An issuer of tokens: keys of its own, made anew for each, and a key set on this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

/// A running issuer.
pub struct Issuer {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    keys: Vec<Value>,
    signs: Option<Arc<SigningKey>>,
    made: u32,
    down: bool,
    asked: u32,
    discovery: Option<Value>,
}

/// A key that signs.
pub struct SigningKey {
    id: String,
    pair: Pair,
}

enum Pair {
    Ed(Ed25519KeyPair),
    Ec(EcdsaKeyPair),
}

/// Bytes as tokens carry them.
pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since 1970, and so many more.
pub fn seconds_from_now(more: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + more
}

impl SigningKey {
    /// A key for EdDSA.
    pub fn ed25519(id: &str) -> SigningKey {
        let bytes = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Pair::Ed(Ed25519KeyPair::from_pkcs8(bytes.as_ref()).unwrap());
        SigningKey { id: id.to_owned(), pair }
    }

    /// A key for ES256.
    pub fn p256(id: &str) -> SigningKey {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let bytes = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = Pair::Ec(EcdsaKeyPair::from_pkcs8(algorithm, bytes.as_ref(), &random).unwrap());
        SigningKey { id: id.to_owned(), pair }
    }

    /// The public half, as a key set has it.
    pub fn public(&self) -> Value {
        match &self.pair {
            Pair::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.id,
                                     "x": encoded(pair.public_key())}),
            Pair::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": self.id,
                       "x": encoded(x), "y": encoded(y)})
            }
        }
    }

    /// A token that it signs, with what its header says.
    pub fn sign(&self, claims: &Value) -> String {
        let algorithm = if matches!(self.pair, Pair::Ed(_)) { "EdDSA" } else { "ES256" };
        let header = json!({"alg": algorithm, "typ": "JWT", "kid": self.id});
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = match &self.pair {
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            Pair::Ec(pair) => pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{message}.{}", encoded(signature))
    }
}

impl Issuer {
    /// Starts one with a key.
    pub fn start() -> Issuer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let issuer = Issuer { port, state: Arc::default() };
        issuer.rotate();
        let state = Arc::clone(&issuer.state);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &state);
            }
        });
        issuer
    }

    /// What tokens name.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A new key in the place of those that were there.
    pub fn rotate(&self) {
        let mut state = self.state.lock().unwrap();
        state.made += 1;
        let key = SigningKey::ed25519(&format!("key-{}", state.made));
        state.keys = vec![key.public()];
        state.signs = Some(Arc::new(key));
    }

    /// Further keys of the set.
    pub fn publish(&self, key: Value) {
        self.state.lock().unwrap().keys.push(key);
    }

    /// Answers nothing but errors, or answers again.
    pub fn fail(&self, down: bool) {
        self.state.lock().unwrap().down = down;
    }

    /// Describes itself.
    pub fn describe(&self, discovery: Value) {
        self.state.lock().unwrap().discovery = Some(discovery);
    }

    /// How often its key set was asked for.
    pub fn asked(&self) -> u32 {
        self.state.lock().unwrap().asked
    }

    /// Claims of a person, good for ten minutes.
    pub fn claims(&self, person: &str, tenant: &str, roles: &[&str]) -> Value {
        json!({"iss": self.url(), "aud": "runtime-cloud", "exp": seconds_from_now(600), "sub": person,
               "tenant": tenant, "roles": roles})
    }

    /// A token with those claims.
    pub fn sign(&self, claims: &Value) -> String {
        let key = self.state.lock().unwrap().signs.clone().unwrap();
        key.sign(claims)
    }

    /// A person's token.
    pub fn token(&self, person: &str, tenant: &str, roles: &[&str]) -> String {
        self.sign(&self.claims(person, tenant, roles))
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let mut state = state.lock().unwrap();
    let body = match path.as_str() {
        "/.well-known/openid-configuration" => state.discovery.clone(),
        "/.well-known/jwks.json" | "/keys" => {
            state.asked += 1;
            Some(json!({"keys": state.keys}))
        }
        _ => None,
    };
    let status = match (&body, state.down) {
        (_, true) => "500 Internal Server Error",
        (None, false) => "404 Not Found",
        (Some(_), false) => "200 OK",
    };
    let body = body.unwrap_or_default().to_string();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())));
}
