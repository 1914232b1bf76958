//! Connections that are made before the first message: a bare `GET /ping` at the host of a service. It needs no right,
//! costs nothing, and whatever is answered, the connection is there.

use aws_config::retry::RetryConfig;

use crate::connect::Clients;

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

impl Clients {
    /// SQS's connection.
    pub async fn meet_sqs(&self) {
        meet!(aws_sdk_sqs, self.sqs().send_message());
    }

    /// EventBridge's.
    pub async fn meet_event_bridge(&self) {
        meet!(aws_sdk_eventbridge, self.event_bridge().put_events());
    }

    /// Secrets Manager's.
    pub async fn meet_secrets_manager(&self) {
        meet!(aws_sdk_secretsmanager, self.secrets_manager().get_secret_value());
    }

    /// Parameter Store's.
    pub async fn meet_ssm(&self) {
        meet!(aws_sdk_ssm, self.ssm().get_parameter());
    }

    /// Lambda's.
    pub async fn meet_lambda(&self) {
        meet!(aws_sdk_lambda, self.lambda().invoke().function_name("ping"));
    }

    /// STS's.
    pub async fn meet_sts(&self) {
        meet!(aws_sdk_sts, self.sts().assume_role());
    }
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
