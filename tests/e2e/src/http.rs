//! The host's API as any client speaks it: one request over one connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::host::HostProcess;

/// What the API answered.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The content's type.
    pub kind: String,
    /// The body.
    pub body: String,
}

impl Reply {
    /// The body as JSON; Null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test whose host can't be asked has failed"
)]
impl HostProcess {
    /// The token of a person of a tenant.
    pub fn token(&self, person: &str, tenant: &str) -> String {
        self.ok(&["--as", person, "--tenant", tenant, "environments", "list"]);
        let file = self.data().join(format!("people/{person}@{tenant}.json"));
        let person: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        person["token"].as_str().unwrap().to_owned()
    }

    /// Sends a request with a token; headers are whole lines.
    pub fn http(&self, token: &str, request: &str, headers: &[&str], body: &[u8]) -> Reply {
        let address: Value =
            serde_json::from_slice(&std::fs::read(self.data().join("host.json")).unwrap()).unwrap();
        let address = address["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        let mut head = format!("{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        head.push_str(&format!("authorization: Bearer {token}\r\ncontent-length: {}\r\n", body.len()));
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // A host that has read enough answers before all of it is sent.
        drop(stream.write_all(body));
        let mut answer = vec![];
        drop(stream.read_to_end(&mut answer));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let kind = head.lines().find_map(|l| l.strip_prefix("content-type: ")).unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_default();
        Reply { status, kind: kind.to_owned(), body: body.to_owned() }
    }

    /// Posts JSON.
    pub fn post(&self, token: &str, path: &str, body: &Value) -> Reply {
        let json = ["content-type: application/json"];
        self.http(token, &format!("POST {path}"), &json, body.to_string().as_bytes())
    }
}
