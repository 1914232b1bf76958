//! The recorder: stands before an emulator, passes everything on, and writes down who asked for what.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::recorded::{Recorded, read};

/// A recorder before an address; it ends with the test's process.
pub struct Recorder {
    port: u16,
    before: Arc<Before>,
}

struct Before {
    upstream: String,
    agent: ureq::Agent,
    recorded: Mutex<Vec<Recorded>>,
    instead: Mutex<Vec<Instead>>,
}

/// An answer that is given once, instead of the emulator's, to a request that holds a text.
struct Instead {
    holds: String,
    status: u16,
    answer: String,
}

impl Recorder {
    /// Starts one before that address.
    pub fn before(upstream: &str) -> Recorder {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections_per_host(64)
            .build()
            .new_agent();
        let before = Arc::new(Before {
            upstream: upstream.to_owned(),
            agent,
            recorded: Mutex::default(),
            instead: Mutex::default(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let app = axum::Router::new().fallback(pass_on).with_state(Arc::clone(&before));
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a port");
                axum::serve(listener, app).await
            })
        });
        Recorder { port, before }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Everything so far, in the order of the answers.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.before.recorded.lock().unwrap().clone()
    }

    /// Answers the next request that holds a text by itself.
    pub fn instead(&self, holds: &str, status: u16, answer: &serde_json::Value) {
        let answer = answer.to_string();
        self.before.instead.lock().unwrap().push(Instead { holds: holds.to_owned(), status, answer });
    }

    /// Forgets it.
    pub fn forget(&self) {
        self.before.recorded.lock().unwrap().clear();
    }
}

impl Before {
    fn instead_of(&self, body: &Bytes) -> Option<Instead> {
        let mut all = self.instead.lock().unwrap();
        let text = String::from_utf8_lossy(body);
        let place = all.iter().position(|instead| text.contains(&instead.holds))?;
        Some(all.remove(place))
    }
}

/// What belongs to one connection alone.
fn of_the_connection(name: &HeaderName) -> bool {
    [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::EXPECT]
        .contains(name)
}

async fn pass_on(
    State(before): State<Arc<Before>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if let Some(instead) = before.instead_of(&body) {
        let status = StatusCode::from_u16(instead.status).expect("a status");
        let recorded = read(&parts, &body, status, &Bytes::new(), peer.port());
        before.recorded.lock().unwrap().push(recorded);
        return (status, [(header::CONTENT_TYPE, "application/x-amz-json-1.1")], instead.answer)
            .into_response();
    }
    let asked = (parts.clone(), body.clone());
    let (agent, upstream) = (before.agent.clone(), before.upstream.clone());
    let answered = tokio::task::spawn_blocking(move || {
        let path = parts.uri.path_and_query().map_or("/", |p| p.as_str());
        let mut request =
            ureq::http::Request::builder().method(parts.method).uri(format!("{upstream}{path}"));
        for (name, value) in parts.headers.iter().filter(|(name, _)| !of_the_connection(name)) {
            request = request.header(name, value);
        }
        let answer = if body.is_empty() {
            agent.run(request.body(()).expect("a request"))
        } else {
            agent.run(request.body(&body[..]).expect("a request"))
        };
        let (parts, body) = answer.map_err(|e| e.to_string())?.into_parts();
        let bytes = body.into_with_config().limit(u64::MAX).read_to_vec().map_err(|e| e.to_string())?;
        Ok::<_, String>((parts, Bytes::from(bytes)))
    });
    match answered.await.expect("no panic") {
        Ok((mut answer, bytes)) => {
            before.recorded.lock().unwrap().push(read(
                &asked.0,
                &asked.1,
                answer.status,
                &bytes,
                peer.port(),
            ));
            let head = asked.0.method == "HEAD";
            let length = answer.headers.get(header::CONTENT_LENGTH).cloned();
            for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
                answer.headers.remove(name);
            }
            if let Some(length) = length.filter(|_| head) {
                answer.headers.insert(header::CONTENT_LENGTH, length);
            }
            Response::from_parts(answer, if head { Body::empty() } else { Body::from(bytes) })
        }
        // As a host that is gone: the caller tries again.
        Err(e) => (StatusCode::BAD_GATEWAY, e).into_response(),
    }
}
