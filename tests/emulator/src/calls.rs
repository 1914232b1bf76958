//! Calls of the emulator as an account's own tools make them, without a signature: it asks for none.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Emulator;
use crate::programs::program;

impl Emulator {
    fn request(&self, service: &str, target: &str, version: &str, body: &Value) -> Result<Value, String> {
        let scope = format!("test/20260101/us-east-1/{service}/aws4_request");
        let answer = ureq::post(self.url())
            .config()
            .http_status_as_error(false)
            .build()
            .header("content-type", format!("application/x-amz-json-{version}"))
            .header("x-amz-target", target)
            .header(
                "authorization",
                format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"),
            )
            .send(body.to_string().as_bytes());
        let mut answer = answer.map_err(|e| e.to_string())?;
        let text = answer.body_mut().read_to_string().map_err(|e| e.to_string())?;
        if !answer.status().is_success() {
            return Err(format!("{target}: {text}"));
        }
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    fn call(&self, service: &str, target: &str, version: &str, body: &Value) -> Value {
        self.request(service, target, version, body).expect("the emulator answers")
    }

    /// A call of DynamoDB.
    pub fn dynamodb(&self, operation: &str, body: &Value) -> Value {
        self.call("dynamodb", &format!("DynamoDB_20120810.{operation}"), "1.0", body)
    }

    /// A call of EventBridge.
    pub fn events(&self, operation: &str, body: &Value) -> Value {
        self.call("events", &format!("AWSEvents.{operation}"), "1.1", body)
    }

    /// A call of ECS.
    pub fn ecs(&self, operation: &str, body: &Value) -> Value {
        self.call("ecs", &format!("AmazonEC2ContainerServiceV20141113.{operation}"), "1.1", body)
    }

    /// A call of SQS.
    pub fn sqs(&self, operation: &str, body: &Value) -> Value {
        self.call("sqs", &format!("AmazonSQS.{operation}"), "1.0", body)
    }

    /// Calls a function and waits; what it answered.
    pub fn invoke(&self, function: &str, event: &Value) -> Value {
        let url = format!("{}/2015-03-31/functions/{function}/invocations", self.url());
        let mut answer = ureq::post(url).send(event.to_string().as_bytes()).expect("the emulator answers");
        let text = answer.body_mut().read_to_string().expect("the emulator answers");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{function} answered no JSON ({e}): {text}"))
    }

    /// A command of AWS's own command line; what it printed.
    pub fn aws(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(program("aws"));
        command.args(arguments).args(["--output", "json"]).stdin(Stdio::null());
        command.envs([
            ("AWS_ENDPOINT_URL", &*self.url()),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_PAGER", ""),
        ]);
        command.envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")]);
        let output = command.output().expect("aws can be started");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Puts something into S3: a bucket, an object, or something of its own such as `bucket?versioning`.
    pub fn put_s3(&self, what: &str, text: &str) {
        ureq::put(format!("{}/{what}", self.url())).send(text.as_bytes()).expect("the emulator answers");
    }

    /// The bytes of an object; None where there is none.
    pub fn object(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let url = format!("{}/{bucket}/{key}", self.url());
        let mut answer = ureq::get(url).call().ok()?;
        answer.body_mut().read_to_vec().ok()
    }
}
