//! The provider under a real Pulumi, with a state in a folder. RUNTIME_CLOUD_TEST_PULUMI names the
//! folder of `pulumi` and its YAML host, unless they are on PATH.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod crash;
mod file;
mod service;
mod stage;
mod trust;

use std::io::{Read as _, Write as _};

/// What the services of these tests run: it answers HTTP on the port it is told; otherwise it is
/// a test that has nothing to do.
#[test]
fn sample_service() {
    let Some(port) = std::env::var_os("SAMPLE_PORT") else { return };
    let mut port: u16 = port.to_str().unwrap().parse().unwrap();
    if std::env::var_os("SAMPLE_EACH").is_some() {
        port += std::env::var_os("RUNTIME_CLOUD_REPLICA").unwrap().to_str().unwrap().parse::<u16>().unwrap();
    }
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}
