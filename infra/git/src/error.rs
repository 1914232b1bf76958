//! Why a program source could not be had, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Each says in one sentence what is wrong and what helps.
#[derive(Debug, Error)]
pub enum GitError {
    /// The repository's address can't be used.
    #[error("the repository address is refused: {why}; give an https:// address or an absolute path")]
    BadAddress {
        /// What is wrong with it.
        why: String,
    },
    /// The address has a user name or password in it.
    #[error("the repository address holds a credential; take it out and name a secret for it instead")]
    CredentialInAddress,
    /// A credential would travel unencrypted.
    #[error("{repository} is reached without encryption, so no credential is sent to it; use https://")]
    CredentialUnprotected {
        /// The repository.
        repository: String,
    },
    /// The repository isn't there, or hides from whoever asks.
    #[error(
        "there is no repository at {repository}; check the address, and whether it needs a credential to be seen"
    )]
    Gone {
        /// The repository.
        repository: String,
    },
    /// The repository wants a credential, or another one.
    #[error("{repository} refuses the credential, or wants one; name a secret that may read it")]
    Unauthorized {
        /// The repository.
        repository: String,
    },
    /// The repository can't be reached just now.
    #[error("{repository} can't be reached just now; try again later")]
    Unavailable {
        /// The repository.
        repository: String,
        /// What is known.
        #[source]
        source: Cause,
    },
    /// It took too long.
    #[error("{what} did not end in time; try again later, or give it more time")]
    TimedOut {
        /// What took so long.
        what: String,
    },
    /// The name means nothing there.
    #[error("{repository} has no branch, tag or commit {reference}; check its spelling, or push it")]
    ReferenceNotFound {
        /// The repository.
        repository: String,
        /// The name.
        reference: String,
    },
    /// The name means several commits.
    #[error("{reference} means more than one commit ({}); give the full hash", candidates.join(", "))]
    Ambiguous {
        /// The name.
        reference: String,
        /// What it may mean.
        candidates: Vec<String>,
    },
    /// The name can't be one of Git's.
    #[error(
        "{reference:?} can't be the name of a branch, tag or commit; give a plain name or a full commit hash, without ~, ^, : or spaces"
    )]
    BadReference {
        /// The name.
        reference: String,
    },
    /// The name means something else.
    #[error(
        "{reference} in {repository} is no commit but a {kind}; name a branch, a commit, or a tag of a commit"
    )]
    NotACommit {
        /// The repository.
        repository: String,
        /// The name.
        reference: String,
        /// What it is.
        kind: String,
    },
    /// Not 40 hexadecimal digits.
    #[error("{commit:?} is no full commit hash; resolve it first")]
    NotACommitHash {
        /// What was given.
        commit: String,
    },
    /// The commit isn't there (any more).
    #[error(
        "{repository} has no commit {commit}; if a forced push dropped it, push it again under a branch or tag"
    )]
    CommitNotFound {
        /// The repository.
        repository: String,
        /// The commit.
        commit: String,
    },
    /// The commit has no such folder.
    #[error("commit {commit} has no folder {path}; check the program's path")]
    PathNotFound {
        /// The commit.
        commit: String,
        /// The path.
        path: String,
    },
    /// The path leaves the repository.
    #[error("the path {path:?} leaves its repository; give one below its root, without '..'")]
    PathEscapes {
        /// The path.
        path: String,
    },
    /// The program needs what is not fetched.
    #[error(
        "{path} is a submodule, and submodules are not fetched; put its files into the repository itself"
    )]
    Submodule {
        /// Where it stands.
        path: String,
    },
    /// A kind of file that Git doesn't know.
    #[error("{path} has a file mode that Git doesn't know; correct it in the repository")]
    BadMode {
        /// Where it stands.
        path: String,
    },
    /// The program needs what is not fetched.
    #[error("{path} is kept in Git LFS, and such files are not fetched; commit the file itself")]
    LargeFilePointer {
        /// Where it stands.
        path: String,
    },
    /// A link that leads out of the checkout.
    #[error("the link {path} leads out of the repository; replace it by a file or a link that stays inside")]
    LinkEscapes {
        /// Where it stands.
        path: String,
    },
    /// A file name that could do harm.
    #[error("the file name {path:?} is refused; rename it in the repository")]
    BadName {
        /// Where it stands.
        path: String,
    },
    /// More than the limits allow.
    #[error("the repository has more than {limit} {what}; make it smaller, or raise the limit")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Files with damaged content.
    #[error("the copy of {repository} is damaged; if it happens again, check the disk and the repository")]
    Damaged {
        /// The repository.
        repository: String,
        /// What is known.
        #[source]
        source: Cause,
    },
    /// There is something in the way.
    #[error("{} exists already, so nothing is checked out there; give a new folder", folder.display())]
    DestinationExists {
        /// The folder.
        folder: PathBuf,
    },
    /// This machine's disk.
    #[error("the program's files can't be written; check that the disk is writable and not full")]
    Disk(#[from] io::Error),
}

impl GitError {
    /// True when the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::TimedOut { .. } | Self::Damaged { .. } | Self::Disk(_)
        )
    }
}
