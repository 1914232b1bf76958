//! A user name and password that show themselves to nobody.

use std::fmt;

/// What a repository asks for. Passed along with each call, never stored.
#[derive(Clone)]
pub struct Credential {
    username: String,
    password: String,
}

impl Credential {
    /// A user name with its password or access token.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self { username: username.into(), password: password.into() }
    }

    pub(crate) fn username(&self) -> &str {
        &self.username
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential")
    }
}
