//! What an SDK error means at a port, and whether the call may have worked all the same.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use ports::PortError;

/// Said of too much at once: it was not done.
const THROTTLED: &[&str] = &[
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "Throttling",
    "ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "TooManyRequestsException",
    "SlowDown",
    "KmsThrottled",
    "TransactionConflictException",
    "EC2ThrottledException",
    "RequestTimeout",
    // A function that is being deployed.
    "ResourceConflictException",
    "ResourceNotReadyException",
];

/// Said of what isn't there.
const MISSING: &[&str] =
    &["ResourceNotFoundException", "NoSuchBucket", "QueueDoesNotExist", "NonExistentQueue"];

/// Said of credentials.
const CREDENTIALS: &[&str] = &[
    "ExpiredToken",
    "ExpiredTokenException",
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
];

/// Said of rights.
const RIGHTS: &[&str] = &["AccessDenied", "AccessDeniedException", "KMSAccessDeniedException"];

/// What is known of a call that failed.
pub(crate) enum Outcome {
    /// It was not done; later it may be.
    NotDone,
    /// Nobody knows whether it was done.
    Unknown,
    /// It was refused, and the same call will be again.
    Refused,
}

/// Reads an error.
pub(crate) fn outcome<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Outcome {
    match error {
        SdkError::ConstructionFailure(_) => Outcome::NotDone,
        SdkError::DispatchFailure(failure) if failure.is_user() => Outcome::NotDone,
        SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) | SdkError::ResponseError(_) => {
            Outcome::Unknown
        }
        SdkError::ServiceError(service) => match service.err().code().map(plain) {
            Some(code) if known(THROTTLED, code) || known(CREDENTIALS, code) || known(RIGHTS, code) => {
                Outcome::NotDone
            }
            Some(code) if known(MISSING, code) => Outcome::NotDone,
            // Whatever a service calls its own trouble.
            _ if service.raw().status().as_u16() >= 500 => Outcome::Unknown,
            _ if service.raw().status().as_u16() == 429 => Outcome::NotDone,
            // ECS says so of EC2's throttling behind it.
            _ if service.err().message().is_some_and(|said| said.contains("Request limit exceeded")) => {
                Outcome::NotDone
            }
            Some("InternalServerError" | "InternalFailure" | "ServiceUnavailable" | "InternalError")
            | None => Outcome::Unknown,
            Some(_) => Outcome::Refused,
        },
        _ => Outcome::Unknown,
    }
}

/// SQS's codes come with its name before them, and without.
pub(crate) fn plain(code: &str) -> &str {
    code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code)
}

fn known(codes: &[&str], code: &str) -> bool {
    codes.contains(&code)
}

/// The variable that names what is missing.
fn variable(code: &str, what: &str) -> &'static str {
    match code {
        "NoSuchBucket" => "RUNTIME_CLOUD_..._BUCKET",
        "QueueDoesNotExist" | "NonExistentQueue" => "RUNTIME_CLOUD_QUEUES",
        _ if what.starts_with("function") => "RUNTIME_CLOUD_RUNNER",
        _ => "RUNTIME_CLOUD_TABLES",
    }
}

/// An error at the port. What an operator has to put right is tried again, and says what that is: what waits
/// meanwhile is not lost for it.
pub(crate) fn fault<E>(what: &str, error: SdkError<E, HttpResponse>) -> PortError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let code = error.as_service_error().and_then(|e| e.code()).map(plain).unwrap_or_default().to_owned();
    let said = error.as_service_error().and_then(|e| e.message()).unwrap_or_default().to_owned();
    let hint = if known(MISSING, &code) {
        let variable = variable(&code, what);
        let hint =
            format!("it does not exist: deploy template.yaml, or correct the function's variable {variable}");
        return PortError::unavailable(what, format!("{code}: {said}; {hint}"));
    } else if known(CREDENTIALS, &code) {
        "the credentials have expired or are wrong: sign in again, or see the function's role"
    } else if known(RIGHTS, &code) {
        "its role may not do that: see the function's policies in template.yaml"
    } else {
        match outcome(&error) {
            Outcome::Refused => {
                return PortError::broken_by(
                    format!("{what} refused a call ({code}: {said})"),
                    "this is a defect, report it",
                    error,
                );
            }
            Outcome::NotDone | Outcome::Unknown => return PortError::unavailable(what, error),
        }
    };
    PortError::unavailable(what, format!("{code}: {said}; {hint}"))
}
