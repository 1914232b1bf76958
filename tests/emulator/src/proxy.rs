//! The proxy: answers as AWS does when it fails, in AWS's own words.

use std::process::Child;

use serde_json::Value;

use crate::programs::{free_port, healthy, tied};

/// A proxy before an emulator; it ends with the test.
pub struct Proxy {
    _folder: tempfile::TempDir,
    child: Child,
    port: u16,
}

impl Proxy {
    /// Starts one before that address.
    pub fn before(upstream: &str) -> Proxy {
        let folder = tempfile::Builder::new().prefix("rc-proxy-").tempdir().unwrap();
        let log_file = folder.path().join("log");
        let log = std::fs::File::create(&log_file).unwrap();
        let port = free_port();
        let child = tied("microburst")
            .args(["--upstream", upstream, "--host", "127.0.0.1", "--port", &port.to_string()])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("a shell can be started");
        let proxy = Proxy { _folder: folder, child, port };
        healthy(&format!("{}/_microburst/health", proxy.url()), &log_file);
        proxy
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What fails from now on, and nothing else.
    pub fn fail(&self, rules: &Value) {
        let url = format!("{}/_microburst/rules", self.url());
        ureq::post(url).send(rules.to_string().as_bytes()).expect("the proxy takes the rules");
    }

    /// What has failed so far: the operations, in their order.
    pub fn fired(&self) -> Vec<Value> {
        let url = format!("{}/_microburst/fired?limit=10000", self.url());
        let mut answer = ureq::get(url).call().expect("the proxy tells what has fired");
        let text = answer.body_mut().read_to_string().unwrap();
        let told: Value = serde_json::from_str(&text).unwrap();
        told.as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
