//! Asking a service whether it works.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What is known of a service's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// All replicas run and answer.
    Healthy,
    /// A replica is missing, or doesn't answer.
    Unhealthy,
    /// All replicas run; no health check was declared.
    Unchecked,
}

/// How to ask.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Check {
    pub(crate) probes: Vec<Probe>,
    pub(crate) timeout: Duration,
}

/// One address that must answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Probe {
    Tcp { port: u16 },
    Http { host: String, port: u16, path: String },
}

impl Probe {
    /// Reads `http://host[:port][/path]`.
    pub(crate) fn from_url(url: &str) -> Result<Self, &'static str> {
        let rest = url.strip_prefix("http://").ok_or("must start with `http://`")?;
        if rest.chars().any(|letter| letter.is_control() || letter == ' ') {
            return Err("must not hold spaces or control characters");
        }
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| "must have a port between 1 and 65535")?)
            }
            _ => (authority, 80),
        };
        if host.is_empty() || host.contains('@') || port == 0 {
            return Err("must look like `http://127.0.0.1:8080/path`");
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self::Http { host: host.to_owned(), port, path })
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Tcp { port } => format!("tcp://127.0.0.1:{port}"),
            Self::Http { host, port, path } => format!("http://{host}:{port}{path}"),
        }
    }

    /// Asks once; the error says what happened.
    pub(crate) fn ask(&self, limit: Duration) -> Result<(), String> {
        match self {
            Self::Tcp { port } => connect("127.0.0.1", *port, limit).map(drop),
            Self::Http { host, port, path } => {
                let mut stream = connect(host, *port, limit)?;
                let asked = Instant::now();
                let text = |error: std::io::Error| format!("asked {host}:{port} without an answer: {error}");
                stream.set_write_timeout(Some(limit)).map_err(text)?;
                let request =
                    format!("GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n");
                // In one piece: a server may answer and close after the first.
                stream.write_all(request.as_bytes()).map_err(text)?;
                let mut head = Vec::new();
                let mut part = [0_u8; 256];
                while head.len() < 12 {
                    let left = limit.saturating_sub(asked.elapsed()).max(Duration::from_millis(1));
                    stream.set_read_timeout(Some(left)).map_err(text)?;
                    let count = stream.read(&mut part).map_err(text)?;
                    if count == 0 || asked.elapsed() >= limit {
                        break;
                    }
                    head.extend_from_slice(part.get(..count).unwrap_or_default());
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
                match status.and_then(|status| status.parse::<u16>().ok()) {
                    Some(200..=399) => Ok(()),
                    Some(status) => Err(format!("{} answered {status}", self.address())),
                    None => Err(format!("{} gave no HTTP answer", self.address())),
                }
            }
        }
    }
}

fn connect(host: &str, port: u16, limit: Duration) -> Result<TcpStream, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> =
        (bare, port).to_socket_addrs().map_err(|error| format!("can't find {host}: {error}"))?.collect();
    let mut last = format!("{host} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = format!("can't connect to {address}: {error}"),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn urls_are_taken_apart() {
        let http = |host: &str, port, path: &str| Probe::Http { host: host.into(), port, path: path.into() };
        assert_eq!(Probe::from_url("http://localhost:81/a?b"), Ok(http("localhost", 81, "/a?b")));
        assert_eq!(Probe::from_url("http://h"), Ok(http("h", 80, "/")));
        assert_eq!(Probe::from_url("http://[::1]:9"), Ok(http("[::1]", 9, "/")));
        for bad in ["https://h", "http://", "http://h:0", "http://h:x", "http://u@h", "http://h/a b", "h"] {
            assert!(Probe::from_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_http_error_is_no_health() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            for answer in ["HTTP/1.1 503 no\r\n\r\n", "HTTP/1.1 200 ok\r\n\r\n", "hello\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 512]);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let probe = Probe::from_url(&format!("http://127.0.0.1:{port}/")).unwrap();
        let limit = Duration::from_secs(5);
        assert!(probe.ask(limit).unwrap_err().contains("503"));
        assert_eq!(probe.ask(limit), Ok(()));
        assert!(probe.ask(limit).is_err());
        server.join().unwrap();
    }
}
