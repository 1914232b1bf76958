//! Why policies can't be used. Each names the file, the line and what to do.

use std::path::PathBuf;

/// Why policies can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A folder or file can't be read.
    #[error("policies at {path} can't be read; correct the path or its permissions")]
    Unreadable {
        /// What was read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The schema itself is wrong: a defect of this program.
    #[error("the policy schema is not usable: {problem}; this is a defect, report it")]
    Schema {
        /// What Cedar says.
        problem: String,
    },
    /// A file is no Cedar.
    #[error("{file}:{line}: {problem}; correct it and load the policies again")]
    Syntax {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// What Cedar says.
        problem: String,
    },
    /// A policy doesn't fit the schema.
    #[error(
        "{file}:{line}: policy {id:?}: {problem}; compare it with runtime-cloud.cedarschema and correct it"
    )]
    Invalid {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// The policy.
        id: String,
        /// What Cedar says.
        problem: String,
    },
    /// A policy without a name is no evidence.
    #[error("{file}:{line}: the policy has no name; put @id(\"a-name-of-its-own\") before it")]
    Unnamed {
        /// The file.
        file: String,
        /// The line.
        line: usize,
    },
    /// Two policies of one name can't be told apart in a receipt.
    #[error("{file}:{line}: policy {id:?} is named like one in {other}; rename one of them")]
    Duplicate {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// The name.
        id: String,
        /// Where the other stands.
        other: String,
    },
    /// A template decides nothing.
    #[error("{file}: template {id:?} is never linked and so decides nothing; write it as a policy")]
    Template {
        /// The file.
        file: String,
        /// The template.
        id: String,
    },
}
