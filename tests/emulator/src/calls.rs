//! Calls of the emulator as an account's own tools make them, without a signature: it asks for none.

use serde_json::Value;

use crate::Emulator;

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

    /// A call of SQS.
    pub fn sqs(&self, operation: &str, body: &Value) -> Value {
        self.call("sqs", &format!("AmazonSQS.{operation}"), "1.0", body)
    }

    /// Puts something of S3's own, such as `bucket?versioning`.
    pub fn put_s3(&self, what: &str, xml: &str) {
        ureq::put(format!("{}/{what}", self.url())).send(xml.as_bytes()).expect("the emulator answers");
    }

    /// The bytes of an object; None where there is none.
    pub fn object(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let url = format!("{}/{bucket}/{key}", self.url());
        let mut answer = ureq::get(url).call().ok()?;
        answer.body_mut().read_to_vec().ok()
    }
}
