//! `cargo lambda watch`, and one function before it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::programs::{free_port, listening, program, tied};

/// Lambda's own interface on this machine, as `cargo lambda watch` gives it; it ends with the test.
pub struct CargoLambda {
    folder: tempfile::TempDir,
    watch: Child,
    function: Child,
    port: u16,
}

impl CargoLambda {
    /// Starts it, and a built function that asks it for messages. `variables` are the function's.
    pub fn before(function: &Path, variables: &[(&str, &str)]) -> CargoLambda {
        let folder = tempfile::Builder::new().prefix("rc-cargo-lambda-").tempdir().unwrap();
        let port = free_port();
        let log = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
        let watch = tied("cargo-lambda")
            .args(["lambda", "watch", "--only-lambda-apis", "--invoke-address", "127.0.0.1"])
            .args(["--invoke-port", &port.to_string()])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../functions"))
            .stdout(log("watch"))
            .stderr(log("watch-errors"))
            .spawn()
            .expect("a shell can be started");
        listening(port);
        let function = Command::new(function)
            .env_clear()
            .envs([
                ("AWS_LAMBDA_RUNTIME_API", &*format!("http://127.0.0.1:{port}/.rt")),
                ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
                ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
                ("AWS_LAMBDA_LOG_GROUP_NAME", "test"),
                ("AWS_LAMBDA_LOG_STREAM_NAME", "test"),
                ("PATH", "/usr/bin:/bin"),
            ])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(log("function"))
            .stderr(log("function-errors"))
            .spawn()
            .expect("the function is built");
        CargoLambda { folder, watch, function, port }
    }

    /// `cargo lambda invoke --data-file FILE`; what the function answered.
    pub fn invoke(&self, sample: &Path) -> Value {
        let mut invoke = Command::new(program("cargo-lambda"));
        invoke.args(["lambda", "invoke", "--invoke-address", "127.0.0.1"]);
        invoke.args(["--invoke-port", &self.port.to_string(), "--data-file"]);
        let output = invoke.arg(sample).stdin(Stdio::null()).output().expect("cargo-lambda can be started");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = || {
            let read =
                |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
            ["watch", "watch-errors", "function", "function-errors"].map(read).concat()
        };
        assert!(output.status.success(), "{text} {} {}", String::from_utf8_lossy(&output.stderr), said());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("no JSON ({e}): {text} {}", said()))
    }
}

impl Drop for CargoLambda {
    fn drop(&mut self) {
        drop(self.function.kill());
        drop(self.function.wait());
        drop(self.watch.stdin.take());
        drop(self.watch.wait());
    }
}
