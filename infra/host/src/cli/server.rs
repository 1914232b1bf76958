//! A deployed API in the place of this machine's host: where it is, and the token that is shown to it.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;

use ureq::http::Uri;

use super::client::CliError;
use super::exit;

/// A deployed API.
#[derive(Clone)]
pub struct Server {
    /// Its URL, without a slash at its end.
    pub url: String,
    /// Where the token is, as far as that was said.
    token_file: Option<PathBuf>,
}

/// No token is longer.
const LONGEST: u64 = 64 * 1024;

fn is_here(host: &str) -> bool {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || plain.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Checks a URL: over TLS, so that nobody on the way has the token; plain only to this machine.
fn checked(url: &str) -> Result<String, CliError> {
    let wrong = |what: &str| {
        let message =
            format!("{what}; give --server the https URL that `cargo xtask deploy` prints as ApiUrl");
        CliError::new(exit::USAGE, message)
    };
    let parsed: Uri = url.parse().map_err(|_| wrong("the server's URL can't be read"))?;
    let host = parsed.host().ok_or_else(|| wrong("the server's URL names no host"))?;
    if parsed.authority().is_some_and(|a| a.as_str().contains('@')) || parsed.query().is_some() {
        return Err(wrong("the server's URL has a user or a query"));
    }
    match parsed.scheme_str() {
        Some("https") => {}
        Some("http") if is_here(host) => {}
        Some(_) | None => return Err(wrong("the server's URL is not https, and it isn't this machine")),
    }
    Ok(url.trim_end_matches('/').to_owned())
}

impl Server {
    /// As the flags say.
    pub fn new(url: &str, token_file: Option<PathBuf>) -> Result<Server, CliError> {
        Ok(Server { url: checked(url)?, token_file })
    }

    /// Whether no wire leads there.
    pub fn is_here(&self) -> bool {
        self.url.starts_with("http:")
    }

    /// The token.
    pub fn token(&self) -> Result<String, CliError> {
        let file = self.token_file.as_ref().ok_or_else(|| {
            let message =
                "a server asks for a token; name its file with --token-file, or in RUNTIME_CLOUD_TOKEN_FILE";
            CliError::new(exit::USAGE, message)
        })?;
        let mut text = String::new();
        let opened = File::open(file);
        let file = file.display();
        opened
            .and_then(|f| f.take(LONGEST).read_to_string(&mut text))
            .map_err(|e| CliError::new(exit::USAGE, format!("token file {file} can't be read: {e}")))?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
            let message = format!("{file} holds no token; write it there, alone on one line");
            return Err(CliError::new(exit::USAGE, message));
        }
        Ok(token.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_over_tls_or_nowhere() {
        for url in [
            "https://a.lambda-url.eu-central-1.on.aws/",
            "http://127.0.0.1:4566/x",
            "http://localhost:1",
            "http://[::1]:2/",
        ] {
            let found = checked(url).map_err(|e| e.to_string());
            assert_eq!(found, Ok(url.trim_end_matches('/').to_owned()));
        }
        for url in [
            "http://example.com",
            "http://127.0.0.1.example.com",
            "ftp://localhost",
            "example.com",
            "",
            "https://a:b@c",
            "https://a/?b=c",
        ] {
            assert_eq!(checked(url).err().map(|e| e.code), Some(exit::USAGE), "{url}");
        }
    }

    #[test]
    fn a_token_is_read_and_never_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let server =
            Server::new("https://example.com", Some(file.clone())).map_err(|e| e.to_string()).unwrap();
        assert!(server.token().is_err());
        std::fs::write(&file, "abc.def\n").unwrap();
        assert_eq!(server.token().ok(), Some("abc.def".to_owned()));
        std::fs::write(&file, "two\nlines").unwrap();
        let said = server.token().err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said.contains("one line") && !said.contains("lines"), "{said}");
        let without = Server::new("https://example.com", None).map_err(|e| e.to_string()).unwrap();
        assert!(without.token().is_err_and(|e| e.to_string().contains("--token-file")));
    }
}
