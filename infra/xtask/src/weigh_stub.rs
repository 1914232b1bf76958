//! What stands in for Lambda and AWS while a function is weighed: as little as lets it begin. Each service has a port of
//! its own, as it has a host of its own on AWS, so that connections are counted as there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::problem::Stop;

/// The services, as the SDK's variables name them.
const SERVICES: &[&str] =
    &["DYNAMODB", "S3", "SQS", "EVENTBRIDGE", "LAMBDA", "STS", "SSM", "SECRETS_MANAGER", "ECS", "KMS"];

/// A manifest without tools, and its digest.
const MANIFEST: &str = "{\"files\":[]}";
const MANIFEST_DIGEST: &str = "602e35a92eec4bc0a2ec6ae113f07bfc6933322fb69fe8dee416e5a67217e2a2";

/// It stands until the program ends.
pub struct Stub {
    lambda: u16,
    services: Vec<(&'static str, u16)>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    opened: AtomicUsize,
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Default)]
struct Now {
    polls: usize,
    answers: usize,
    message: Option<String>,
}

impl Stub {
    /// Begins to listen.
    pub fn start() -> Result<Stub, Stop> {
        let shared = Arc::new(Shared::default());
        let lambda = listen(&shared, answer_of_lambda, false)?;
        let mut services = vec![];
        for service in SERVICES {
            let of_service = match *service {
                "S3" => answer_of_s3,
                _ => answer_of_a_service,
            };
            services.push((*service, listen(&shared, of_service, true)?));
        }
        Ok(Stub { lambda, services, shared })
    }

    /// What the function is told, as template.yaml does.
    pub fn variables(&self, function: &str) -> Vec<(String, String)> {
        let mut variables: Vec<(String, String)> = [
            ("AWS_LAMBDA_RUNTIME_API", &*format!("127.0.0.1:{}", self.lambda)),
            ("AWS_LAMBDA_FUNCTION_NAME", function),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "weigh"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "weigh"),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ("RUNTIME_CLOUD_TABLES", "rc-"),
            ("RUNTIME_CLOUD_QUEUES", "https://sqs.eu-central-1.amazonaws.com/000000000000/rc-"),
            ("RUNTIME_CLOUD_BUS", "rc"),
            ("RUNTIME_CLOUD_RECEIPTS_BUCKET", "receipts"),
            ("RUNTIME_CLOUD_ARTIFACTS_BUCKET", "artifacts"),
            ("RUNTIME_CLOUD_JOBS_BUCKET", "jobs"),
            ("RUNTIME_CLOUD_TOOLS_BUCKET", "tools"),
            ("RUNTIME_CLOUD_TOOLS", MANIFEST_DIGEST),
            ("RUNTIME_CLOUD_SECRETS", "rc"),
            ("RUNTIME_CLOUD_SECRETS_ARN", "arn:aws:secretsmanager:eu-central-1:000000000000"),
            ("RUNTIME_CLOUD_PARAMETERS", "rc"),
            ("RUNTIME_CLOUD_JWT_ISSUER", "https://issuer.invalid"),
            ("RUNTIME_CLOUD_JWT_AUDIENCE", "runtime-cloud"),
            ("RUNTIME_CLOUD_RUNNER", "rc-runner"),
            ("RUNTIME_CLOUD_JOB_ROLE", "arn:aws:iam::000000000000:role/rc-job"),
            ("PATH", "/usr/bin:/bin"),
            ("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        for (service, port) in &self.services {
            variables.push((format!("AWS_ENDPOINT_URL_{service}"), format!("http://127.0.0.1:{port}")));
        }
        variables
    }

    /// Waits until the function asks for its first message; false where it doesn't.
    pub fn polled(&self, limit: Duration) -> bool {
        self.wait(limit, |now| now.polls > 0)
    }

    /// Waits until the function has answered a message.
    pub fn answered(&self, limit: Duration) -> bool {
        self.wait(limit, |now| now.answers > 0)
    }

    /// Gives it a message.
    pub fn give(&self, message: &str) {
        self.shared.now.lock().unwrap_or_else(PoisonError::into_inner).message = Some(message.to_owned());
        self.shared.changed.notify_all();
    }

    /// Connections to AWS so far.
    pub fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    fn wait(&self, limit: Duration, until: impl Fn(&Now) -> bool) -> bool {
        let now = self.shared.now.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.changed.wait_timeout_while(now, limit, |now| !until(now));
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }
}

struct Request {
    method: String,
    path: String,
}

struct Answer {
    status: &'static str,
    headers: &'static str,
    body: String,
}

fn listen(shared: &Arc<Shared>, answer: fn(&Shared, &Request) -> Answer, counted: bool) -> Result<u16, Stop> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Stop::of("a port"))?;
    let port = listener.local_addr().map_err(Stop::of("a port"))?.port();
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            shared.opened.fetch_add(usize::from(counted), Ordering::SeqCst);
            let shared = Arc::clone(&shared);
            // Whoever breaks off has ended.
            std::thread::spawn(move || drop(serve(&stream, |request| answer(&shared, request))));
        }
    });
    Ok(port)
}

fn serve(stream: &TcpStream, answer: impl Fn(&Request) -> Answer) -> std::io::Result<()> {
    let mut from = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut length = 0;
        loop {
            let mut header = String::new();
            from.read_line(&mut header)?;
            let header = header.trim().to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or_default();
            }
            if header.is_empty() {
                break;
            }
        }
        std::io::copy(&mut from.by_ref().take(length), &mut std::io::sink())?;
        let Answer { status, headers, body } = answer(&Request { method, path });
        let mut to = stream;
        write!(to, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())?;
    }
}

fn answer_of_lambda(shared: &Shared, request: &Request) -> Answer {
    let mut now = shared.now.lock().unwrap_or_else(PoisonError::into_inner);
    if request.path.ends_with("/next") {
        now.polls += 1;
        shared.changed.notify_all();
        while now.message.is_none() {
            now = shared.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        return Answer {
            status: "200 OK",
            headers: "content-type: application/json\r\nlambda-runtime-aws-request-id: 1\r\n\
                      lambda-runtime-deadline-ms: 4102444800000\r\n\
                      lambda-runtime-invoked-function-arn: arn:aws:lambda:eu-central-1:000000000000:function:f\r\n",
            body: now.message.take().unwrap_or_default(),
        };
    }
    now.answers += 1;
    shared.changed.notify_all();
    Answer { status: "202 Accepted", headers: "", body: String::new() }
}

fn answer_of_s3(_: &Shared, request: &Request) -> Answer {
    if request.path.contains(MANIFEST_DIGEST) {
        return Answer { status: "200 OK", headers: "", body: MANIFEST.to_owned() };
    }
    if request.method == "PUT" {
        return Answer { status: "200 OK", headers: "etag: \"0\"\r\n", body: String::new() };
    }
    let body = "<Error><Code>NoSuchKey</Code><Message>there is none</Message></Error>".to_owned();
    Answer { status: "404 Not Found", headers: "content-type: application/xml\r\n", body }
}

fn answer_of_a_service(_: &Shared, _: &Request) -> Answer {
    Answer {
        status: "200 OK",
        headers: "content-type: application/x-amz-json-1.0\r\n",
        body: "{}".to_owned(),
    }
}
