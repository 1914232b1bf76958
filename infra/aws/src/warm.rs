//! Connections that are made before the first message: a bare `GET /ping` at the host of a service. It needs no right,
//! costs nothing, and whatever is answered, the connection is there.

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;

/// The same host, asked for nothing.
fn ping(uri: &str) -> String {
    let host = uri.split('/').take(3).collect::<Vec<_>>().join("/");
    format!("{host}/ping")
}

/// A call of a client, on its way to its host, without what it would do.
macro_rules! meet {
    ($sdk:ident, $call:expr) => {{
        let once = $sdk::config::Builder::new().retry_config(RetryConfig::disabled());
        let call = $call.customize().config_override(once).mutate_request(|request| {
            let uri = ping(request.uri());
            // Both are well-formed.
            drop(request.set_uri(uri));
            drop(request.set_method("GET"));
            *request.body_mut() = aws_sdk_s3::primitives::SdkBody::empty();
            for name in ["content-type", "content-length", "x-amz-target"] {
                request.headers_mut().remove(name);
            }
        });
        if let Err(error) = call.send().await {
            // No answer reads as that of the call.
            tracing::debug!(%error, "a connection is made");
        }
    }};
}

/// SQS's.
pub async fn meet_sqs(config: &SdkConfig) {
    meet!(aws_sdk_sqs, crate::sqs(config).send_message());
}

/// EventBridge's.
pub async fn meet_event_bridge(config: &SdkConfig) {
    meet!(aws_sdk_eventbridge, crate::event_bridge(config).put_events());
}

/// Secrets Manager's.
pub async fn meet_secrets_manager(config: &SdkConfig) {
    meet!(aws_sdk_secretsmanager, crate::secrets_manager(config).get_secret_value());
}

/// Parameter Store's.
pub async fn meet_ssm(config: &SdkConfig) {
    meet!(aws_sdk_ssm, crate::ssm(config).get_parameter());
}

/// Lambda's.
pub async fn meet_lambda(config: &SdkConfig) {
    meet!(aws_sdk_lambda, crate::lambda(config).invoke().function_name("ping"));
}

/// STS's.
pub async fn meet_sts(config: &SdkConfig) {
    meet!(aws_sdk_sts, crate::sts(config).assume_role());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_is_met() {
        assert_eq!(
            ping("https://sqs.eu-central-1.amazonaws.com/"),
            "https://sqs.eu-central-1.amazonaws.com/ping"
        );
        assert_eq!(ping("http://127.0.0.1:4566/2015-03-31/functions/f?x=y"), "http://127.0.0.1:4566/ping");
    }
}
