//! Tokens: who is let in, and every way in which nobody is.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends by panicking")]

use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use emulator::{Issuer, SigningKey, encoded, seconds_from_now};
use http_api::{Caller, Identity, Problem, Role};
use ports::Clock;
use runtime_cloud_functions::identity::{Expected, Tokens};
use runtime_cloud_functions::keys::Keys;
use serde_json::{Value, json};

/// A clock that is moved by hand: the key set is fetched by it. Tokens end by the machine's.
struct HandClock(Mutex<DateTime<Utc>>);

impl HandClock {
    fn pass(&self, seconds: i64) {
        *self.0.lock().unwrap() += TimeDelta::seconds(seconds);
    }
}

impl Clock for HandClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap()
    }
}

struct Stage {
    issuer: Issuer,
    clock: Arc<HandClock>,
    tokens: Tokens,
}

fn expected(issuer: &str) -> Expected {
    Expected {
        issuer: issuer.to_owned(),
        audience: "runtime-cloud".to_owned(),
        person: "sub".to_owned(),
        tenant: "tenant".to_owned(),
        roles: "roles".to_owned(),
    }
}

fn tokens(expected: Expected, url: Option<String>, clock: &Arc<HandClock>) -> Tokens {
    let keys = Keys::of(expected.issuer.clone(), url, Arc::clone(clock) as Arc<dyn Clock>).unwrap();
    Tokens::new(keys, expected)
}

fn stage() -> Stage {
    let issuer = Issuer::start();
    let clock = Arc::new(HandClock(Mutex::new(DateTime::UNIX_EPOCH)));
    let tokens = tokens(expected(&issuer.url()), None, &clock);
    Stage { issuer, clock, tokens }
}

#[tokio::main(flavor = "current_thread")]
async fn asked(tokens: &Tokens, token: &str) -> Result<Caller, Problem> {
    tokens.who(token).await
}

impl Stage {
    fn who(&self, token: &str) -> Result<Caller, Problem> {
        asked(&self.tokens, token)
    }

    /// Nobody is let in; the reason, which holds nothing of the token.
    fn refused(&self, status: u16, token: &str) -> String {
        let problem = self.who(token).unwrap_err();
        assert_eq!(problem.status, status, "{problem:?}");
        let secret = token.rsplit('.').next().unwrap_or_default();
        assert!(secret.len() < 4 || !problem.detail.contains(secret), "{problem:?}");
        problem.detail
    }

    fn claims(&self) -> Value {
        self.issuer.claims("ada", "acme", &["viewer", "approver", "chef"])
    }

    fn with(&self, claim: &str, value: Value) -> String {
        let mut claims = self.claims();
        claims[claim] = value;
        self.issuer.sign(&claims)
    }

    fn without(&self, claim: &str) -> String {
        let mut claims = self.claims();
        claims.as_object_mut().unwrap().remove(claim);
        self.issuer.sign(&claims)
    }
}

#[test]
fn a_token_says_who_asks_for_whom_and_with_which_roles() {
    let stage = stage();
    let caller = stage.who(&stage.issuer.sign(&stage.claims())).unwrap();
    assert_eq!((caller.principal.as_str(), caller.tenant.as_str()), ("ada", "acme"));
    // What is a role of somebody else's product is none here.
    assert_eq!(caller.roles, [Role::Viewer, Role::Approver].into());
    let caller = stage.who(&stage.with("roles", json!("operator,viewer"))).unwrap();
    assert_eq!(caller.roles, [Role::Viewer, Role::Operator].into());
    assert_eq!(stage.who(&stage.without("roles")).unwrap().roles, [].into());
    // The key set was asked for once.
    assert_eq!(stage.issuer.asked(), 1);
}

#[test]
fn claims_are_found_where_an_issuer_puts_them() {
    let stage = stage();
    let deep = Expected {
        person: "email".to_owned(),
        tenant: "https://example.com/tenant".to_owned(),
        roles: "realm_access.roles".to_owned(),
        ..expected(&stage.issuer.url())
    };
    let tokens = tokens(deep, None, &stage.clock);
    let mut claims = stage.claims();
    claims["email"] = json!("ada@example.com");
    claims["https://example.com/tenant"] = json!("blue");
    claims["realm_access"] = json!({"roles": ["admin"]});
    let caller = asked(&tokens, &stage.issuer.sign(&claims)).unwrap();
    assert_eq!((caller.principal.as_str(), caller.tenant.as_str()), ("ada@example.com", "blue"));
    assert_eq!(caller.roles, [Role::Admin].into());
}

#[test]
fn each_of_the_three_algorithms_is_taken() {
    let stage = stage();
    let ec = SigningKey::p256("ec");
    stage.issuer.publish(ec.public());
    assert!(stage.who(&ec.sign(&stage.claims())).is_ok());
    assert!(stage.who(&stage.issuer.sign(&stage.claims())).is_ok());
    // Signed once by a key that nobody has any more.
    let clock = Arc::clone(&stage.clock);
    let old = tokens(expected("http://127.0.0.1:1"), Some(format!("{}/keys", stage.issuer.url())), &clock);
    stage.issuer.publish(json!({"kty": "RSA", "alg": "RS256", "kid": "rsa", "e": "AQAB", "n": RSA_KEY}));
    let caller = asked(&old, RSA_TOKEN).unwrap();
    assert_eq!((caller.principal.as_str(), caller.roles.len()), ("ada", 2));
    let (message, _) = RSA_TOKEN.rsplit_once('.').unwrap();
    let other = asked(&old, &format!("{message}.{}", encoded([7; 256]))).unwrap_err();
    assert!(other.status == 401 && other.detail.contains("signature"), "{other:?}");
}

#[test]
fn what_isnt_signed_by_the_issuer_is_refused() {
    let stage = stage();
    let claims = stage.claims();
    let right = stage.issuer.sign(&claims);
    assert!(stage.who(&right).is_ok());
    // Another's key under the id of the issuer's.
    let forged = SigningKey::ed25519("key-1").sign(&claims);
    assert!(stage.refused(401, &forged).contains("signature"));
    // Other claims under a right signature.
    let mut parts: Vec<&str> = right.split('.').collect();
    let claims = encoded(stage.issuer.claims("eve", "acme", &["admin"]).to_string());
    parts[1] = &claims;
    assert!(stage.refused(401, &parts.join(".")).contains("signature"));
    // Without one, and with one that only needs what everybody knows: the public key.
    let none = encoded(json!({"alg": "none", "kid": "key-1"}).to_string());
    stage.refused(401, &format!("{none}.{claims}."));
    stage.refused(401, &format!("{none}.{claims}.AAAA"));
    let public = SigningKey::ed25519("mac").public();
    stage.issuer.rotate();
    stage.issuer.publish(public.clone());
    stage.clock.pass(61);
    for key in [public["x"].as_str().unwrap().as_bytes(), public.to_string().as_bytes()] {
        let header = encoded(json!({"alg": "HS256", "kid": "mac"}).to_string());
        let message = format!("{header}.{claims}");
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
        let mac = encoded(ring::hmac::sign(&key, message.as_bytes()));
        assert!(stage.refused(401, &format!("{message}.{mac}")).contains("algorithm"));
    }
    // A key of one kind checks nothing that says it is of another.
    let ec = SigningKey::p256("mac").sign(&stage.claims());
    assert!(stage.refused(401, &ec).contains("algorithm"));
    for odd in ["", "a", "a.b", "a.b.c", "....", "\u{e4}.\u{f6}.\u{fc}"] {
        stage.refused(401, odd);
    }
    let without_id = encoded(json!({"alg": "EdDSA"}).to_string());
    assert!(stage.refused(401, &format!("{without_id}.{claims}.AAAA")).contains("kid"));
}

#[test]
fn what_has_ended_or_is_for_others_is_refused() {
    let stage = stage();
    // Two clocks may differ by half a minute.
    assert!(stage.who(&stage.with("exp", json!(seconds_from_now(-20)))).is_ok());
    assert!(stage.refused(401, &stage.with("exp", json!(seconds_from_now(-40)))).contains("expired"));
    assert!(stage.who(&stage.with("nbf", json!(seconds_from_now(20)))).is_ok());
    assert!(stage.refused(401, &stage.with("nbf", json!(seconds_from_now(40)))).contains("yet"));
    assert!(stage.refused(401, &stage.with("iss", json!("https://evil.example"))).contains("issuer"));
    assert!(stage.refused(401, &stage.with("aud", json!("billing"))).contains("audience"));
    assert!(stage.who(&stage.with("aud", json!(["billing", "runtime-cloud"]))).is_ok());
    for claim in ["exp", "iss", "aud"] {
        assert!(stage.refused(401, &stage.without(claim)).contains("lacks"), "{claim}");
    }
    stage.refused(401, &stage.with("exp", json!("tomorrow")));
}

#[test]
fn who_names_no_person_or_no_tenant_is_nobody() {
    let stage = stage();
    for claim in ["sub", "tenant"] {
        assert!(stage.refused(401, &stage.without(claim)).contains(claim));
        for odd in [json!(""), json!(7), json!(["acme"]), json!("a\u{7}"), json!("x".repeat(129))] {
            stage.refused(401, &stage.with(claim, odd));
        }
    }
}

#[test]
fn nobody_takes_the_name_of_a_service() {
    let stage = stage();
    let named = |roles: &[&str]| stage.issuer.token("RunControlService", "acme", roles);
    assert!(stage.refused(403, &named(&["viewer", "admin"])).contains("RunControlService"));
    assert_eq!(stage.who(&named(&["service"])).unwrap().roles, [Role::Service].into());
}

#[test]
fn a_new_key_is_found_and_an_old_one_ends() {
    let stage = stage();
    let old = stage.issuer.sign(&stage.claims());
    assert!(stage.who(&old).is_ok());
    stage.issuer.rotate();
    let new = stage.issuer.sign(&stage.claims());
    // Whatever is asked for, the issuer is asked once a minute.
    assert!(stage.refused(401, &new).contains("none of its issuer's"));
    assert_eq!(stage.issuer.asked(), 1);
    stage.clock.pass(60);
    assert!(stage.who(&new).is_ok());
    assert!(stage.refused(401, &old).contains("none of its issuer's"));
    assert_eq!(stage.issuer.asked(), 2);
    // A key that was taken back ends, though nobody brings a new one.
    stage.issuer.rotate();
    stage.clock.pass(3601);
    assert!(stage.refused(401, &new).contains("none of its issuer's"));
}

#[test]
fn an_issuer_that_is_down_takes_no_key_away() {
    let stage = stage();
    let known = stage.issuer.sign(&stage.claims());
    stage.issuer.fail(true);
    // Nobody can know who that is.
    let said = stage.refused(503, &known);
    assert!(said.contains("try again") && said.contains("500"), "{said}");
    stage.issuer.fail(false);
    assert!(stage.refused(503, &known).contains("try again"));
    stage.clock.pass(60);
    assert!(stage.who(&known).is_ok());
    stage.issuer.fail(true);
    stage.clock.pass(7200);
    assert!(stage.who(&known).is_ok());
    stage.issuer.rotate();
    assert!(stage.refused(503, &stage.issuer.sign(&stage.claims())).contains("try again"));
}

#[test]
fn keys_are_where_the_issuer_says() {
    let stage = stage();
    let url = stage.issuer.url();
    stage.issuer.describe(json!({"issuer": url, "jwks_uri": format!("{url}/keys")}));
    assert!(stage.who(&stage.issuer.sign(&stage.claims())).is_ok());
    for (odd, said) in [
        (json!({"issuer": "https://evil.example", "jwks_uri": format!("{url}/keys")}), "evil"),
        (json!({"issuer": url, "jwks_uri": "http://evil.example/keys"}), "not https"),
        (json!({"issuer": url}), "can't be read"),
    ] {
        let other = self::stage();
        let mut odd = odd;
        if odd["issuer"] == json!(url) {
            odd["issuer"] = json!(other.issuer.url());
        }
        other.issuer.describe(odd);
        let problem = other.refused(503, &other.issuer.sign(&other.claims()));
        assert!(problem.contains(said), "{problem}");
    }
    let clock = Arc::new(HandClock(Mutex::new(DateTime::UNIX_EPOCH)));
    for (issuer, url) in
        [("http://issuer.example", None), ("https://a.example", Some("http://b.example/keys"))]
    {
        let keys = Keys::of(issuer.to_owned(), url.map(str::to_owned), Arc::clone(&clock) as Arc<dyn Clock>);
        assert!(keys.err().is_some_and(|e| e.to_string().contains("https")));
    }
}

const RSA_KEY: &str = "qch9NMN3nfMeHKebMI-w_3OaTpIcj6yKYfKt5LFX5THzfLaqYFW2452ogjoRYMbAdI-UO-g0ugYrh5MUMKkPXKVX\
    wKVHnwxKrBzWw2f82am6dfUEH4pyZWnlHvIsORNtpxCB_kJ7R7ZCd4YTSFvhg6NBAu7sUBAMe5hCa3YgR6BJou76\
    jC_ziXrbngapLtjXCpN1OTMZ6Fq_X8McGugw2mQut1kaSFJu1Jj4fER2ZZVvqZGLU4znC29r3FStyGpTHxDn8-6_\
    3I2hz6q0wkHhEkNp-IC_PCMwarSoYKc6_YhRPqRq9oIyi0071VwDi3DD_5EsowByWtEkHpP9-ZkqoQ";
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjE\
    iLCJhdWQiOlsib3RoZXIiLCJydW50aW1lLWNsb3VkIl0sImV4cCI6NDEwMjQ0NDgwMCwic3ViIjoiYWRhIiwidGV\
    uYW50IjoiYWNtZSIsInJvbGVzIjoidmlld2VyIGFwcHJvdmVyIn0.g4GlN4xKzZKv8v_zjkPeV1suw2rfqy6LD0n\
    e2yPugq7Wv8pMz9h6IgnfNt0zRF_9b0Lq_Zp5gemhPDm4gTQK4xiC5FkLVObRTWBNFJ5oypvS_vubGSgcH0R-dDk\
    wnq23PNUkRCRQOBfeV9xljttJHui8rDQrr75tYeCTSCbi0DjzO-vNKpORyYBZVYvpS32EQmWQX4txY0EuA3bens6\
    moy1Q7euc9nADysBCXaGEMg8vcahQAeR-CHkic-qbk6i2I53WYPjub3SdYE9Hn37uIBv599HSxI2u9PTe6CZWCnt\
    nhNpoqIHjKSVRMD9xSMj3jWW79hkSQTXYMHwLDcar2A";
