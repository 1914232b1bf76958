//! Which repositories may be named, and how.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::GitError;

/// A repository that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A folder of this machine.
    Local(PathBuf),
    /// An http or https address without credentials.
    Http(String),
}

impl Address {
    /// Takes apart what a person has given. Anything that could start a program is refused.
    pub(crate) fn parse(text: &str) -> Result<Self, GitError> {
        let refuse = |why: &str| Err(GitError::BadAddress { why: why.into() });
        if text.is_empty() || text.starts_with('-') || text.chars().any(char::is_control) {
            return refuse("it is empty, starts with a dash or holds control characters");
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                scheme @ ("http" | "https") => Self::http(scheme, rest),
                "file" => Self::local(rest.strip_prefix("localhost").unwrap_or(rest)),
                "ssh" | "git" | "git+ssh" => refuse("ssh and git transports need programs that are not used"),
                _ => refuse("its transport is not known"),
            };
        }
        let colon = text.find(':');
        let slash = text.find('/');
        if colon.is_some_and(|colon| slash.is_none_or(|slash| colon < slash)) {
            return refuse("HOST:PATH and HELPER::ADDRESS need programs that are not used");
        }
        Self::local(text)
    }

    fn http(scheme: &str, rest: &str) -> Result<Self, GitError> {
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.contains('@') {
            return Err(GitError::CredentialInAddress);
        }
        if host.is_empty() || path.trim_matches('/').is_empty() {
            return Err(GitError::BadAddress { why: "it names no host or no repository".into() });
        }
        if rest.contains(['?', '#', ' ', '\\']) {
            return Err(GitError::BadAddress {
                why: "it holds a query, fragment, space or backslash".into(),
            });
        }
        Ok(Self::Http(format!("{scheme}://{}/{}", host.to_ascii_lowercase(), path.trim_end_matches('/'))))
    }

    fn local(path: &str) -> Result<Self, GitError> {
        if !Path::new(path).is_absolute() {
            return Err(GitError::BadAddress { why: "the path is not absolute".into() });
        }
        Ok(Self::Local(path.into()))
    }

    /// True when a credential may be sent there.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Http(url) if url.starts_with("https://"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(formatter),
            Self::Http(url) => formatter.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_addresses_and_absolute_paths_are_taken() {
        let http = Address::parse("HTTPS://Example.com/Team/repo.git/").unwrap();
        assert_eq!(http, Address::Http("https://example.com/Team/repo.git".into()));
        assert!(http.is_encrypted());
        assert_eq!(Address::parse("file:///a/b").unwrap(), Address::Local("/a/b".into()));
        assert_eq!(Address::parse("/a/b:c").unwrap(), Address::Local("/a/b:c".into()));
    }

    #[test]
    fn what_could_start_a_program_is_refused() {
        let refused = [
            "",
            "-uhttps://example.com/a",
            "--upload-pack=touch x",
            "ext::sh -c touch% x",
            "fd::17",
            "ssh://example.com/a",
            "ssh://-oProxyCommand=x/a",
            "git@example.com:a.git",
            "example.com:a.git",
            "git://example.com/a",
            "ftp://example.com/a",
            "relative/path",
            "../up",
            "file://host/path",
            "https://example.com",
            "https:///path",
            "https://example.com/a?b",
            "https://example.com/a\nb",
        ];
        for text in refused {
            assert!(matches!(Address::parse(text), Err(GitError::BadAddress { .. })), "{text}");
        }
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_repeated() {
        for text in ["https://user:hush@example.com/a", "http://hush@example.com/a"] {
            let error = Address::parse(text).unwrap_err();
            assert!(matches!(error, GitError::CredentialInAddress));
            assert!(!format!("{error} {error:?}").contains("hush"));
        }
    }
}
