//! Repositories behind http or https: their names, and fetching from them.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gix::ObjectId;
use gix::credentials::helper::Action;
use gix::protocol::handshake::Ref;
use gix::protocol::transport::client::blocking_io::http;
use gix::remote::Direction;
use gix::remote::fetch::{Shallow, Tags};

use crate::address::Address;
use crate::cache::Cache;
use crate::{Credential, GitError};

/// How to reach a repository, for one call.
pub(crate) struct Access<'a> {
    pub(crate) address: &'a Address,
    pub(crate) credential: Option<&'a Credential>,
    pub(crate) deadline: Instant,
    /// Bytes that a fetch may bring.
    pub(crate) fetch_limit: u64,
}

/// Everything that a clone would bring, for what can't be asked for by itself.
const EVERYTHING: [&str; 2] = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];

impl Access<'_> {
    /// The repository's branches, tags and HEAD with the commits they point to.
    pub(crate) fn names(&self, cache: &Cache) -> Result<Vec<(String, ObjectId)>, GitError> {
        let remote = self.remote(cache, &["HEAD", "refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*"])?;
        let connection = self.connect(&remote)?;
        let options = gix::remote::ref_map::Options::default();
        let (map, _) =
            connection.ref_map(gix::progress::Discard, options).map_err(|error| self.explain(error))?;
        let names = map.remote_refs.iter().filter_map(|name| match name {
            Ref::Peeled { full_ref_name, object, .. }
            | Ref::Direct { full_ref_name, object }
            | Ref::Symbolic { full_ref_name, object, .. } => Some((full_ref_name.to_string(), *object)),
            Ref::Unborn { .. } => None,
        });
        Ok(names.collect())
    }

    /// Brings one commit and its files, without history; the whole repository where the server refuses that.
    pub(crate) fn fetch_commit(&self, cache: &Cache, commit: ObjectId) -> Result<(), GitError> {
        let only = commit.to_string();
        let alone = self.fetch(cache, &[only.as_str()], Shallow::DepthAtRemote(NonZeroU32::MIN));
        match alone {
            Ok(()) if cache.has(commit) => return Ok(()),
            Ok(()) | Err(GitError::CommitNotFound { .. }) => {}
            // A server that refuses single commits says so in words of its own.
            Err(GitError::Unavailable { source, .. }) => {
                tracing::debug!(%source, "the commit can't be fetched by itself");
            }
            Err(error) => return Err(error),
        }
        self.fetch_everything(cache)?;
        if cache.has(commit) {
            return Ok(());
        }
        Err(GitError::CommitNotFound { repository: self.address.to_string(), commit: commit.to_string() })
    }

    /// Brings all branches and tags with their history.
    pub(crate) fn fetch_everything(&self, cache: &Cache) -> Result<(), GitError> {
        let shallow =
            if cache.repository.is_shallow().unwrap_or(true) { Shallow::undo() } else { Shallow::NoChange };
        self.fetch(cache, &EVERYTHING, shallow)
    }

    fn fetch(&self, cache: &Cache, specs: &[&str], shallow: Shallow) -> Result<(), GitError> {
        let remote = self.remote(cache, specs)?;
        let connection = self.connect(&remote)?;
        let options = gix::remote::ref_map::Options::default();
        let fetch = connection
            .prepare_fetch(gix::progress::Discard, options)
            .map_err(|error| self.explain(error))?
            .with_shallow(shallow);
        let stop = AtomicBool::new(false);
        let too_large = AtomicBool::new(false);
        let packs = cache.folder.join("objects/pack");
        let (deadline, limit, before) = (self.deadline, self.fetch_limit, bytes_in(&packs));
        let exceeded = || bytes_in(&packs).saturating_sub(before) > limit;
        let result = std::thread::scope(|scope| {
            let (done, wait) = channel::<()>();
            let (stop, too_large, exceeded) = (&stop, &too_large, &exceeded);
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(Duration::from_millis(100)) {
                    too_large.store(exceeded(), Ordering::SeqCst);
                    if too_large.load(Ordering::SeqCst) || Instant::now() >= deadline {
                        stop.store(true, Ordering::SeqCst);
                        break;
                    }
                }
            });
            let result = fetch.receive(gix::progress::Discard, stop);
            drop(done);
            result
        });
        if too_large.load(Ordering::SeqCst) || exceeded() {
            // What has come in must not be found there by the next call.
            cache.clear()?;
            return Err(GitError::TooLarge { what: "bytes to fetch", limit });
        }
        result.map(|_| ()).map_err(|error| self.explain(error))
    }

    fn remote<'r>(&self, cache: &'r Cache, specs: &[&str]) -> Result<gix::Remote<'r>, GitError> {
        cache
            .repository
            .remote_at_without_url_rewrite(self.address.to_string().as_str())
            .and_then(|remote| remote.with_fetch_tags(Tags::None).with_refspecs(specs, Direction::Fetch))
            .map_err(|error| GitError::BadAddress { why: error.to_string() })
    }

    fn connect<'remote, 'repo>(
        &self,
        remote: &'remote gix::Remote<'repo>,
    ) -> Result<
        gix::remote::Connection<
            'remote,
            'static,
            'repo,
            Box<dyn gix::protocol::transport::client::blocking_io::Transport + Send>,
        >,
        GitError,
    > {
        if self.credential.is_some() && !self.address.is_encrypted() {
            return Err(GitError::CredentialUnprotected { repository: self.address.to_string() });
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.timed_out());
        }
        let connection = remote.connect(Direction::Fetch).map_err(|error| self.explain(error))?;
        let client = http::reqwest::Options {
            configure_client: Some(Box::new(move |builder| Ok(builder.timeout(left)))),
            configure_request: None,
        };
        let transport = http::Options { backend: Some(Arc::new(Mutex::new(client))), ..Default::default() };
        let (credential, origin) = (self.credential.cloned(), origin(self.address));
        // Always set: otherwise Git's own helpers, which are programs, would be asked.
        let answer = move |action: Action| match action {
            Action::Get(context) => {
                let asked = context.url.map(|url| url.to_string()).unwrap_or_default();
                let same = origin.as_ref().is_some_and(|origin| asked.starts_with(origin));
                // A redirect to another host gets nothing.
                let account =
                    credential.as_ref().filter(|_| same).map(|credential| gix::sec::identity::Account {
                        username: credential.username().to_owned(),
                        password: credential.password().to_owned(),
                        oauth_refresh_token: None,
                    });
                Ok(account.map(|identity| gix::credentials::protocol::Outcome {
                    identity,
                    next: gix::credentials::helper::NextAction::from(
                        gix::credentials::protocol::Context::default(),
                    ),
                }))
            }
            Action::Store(_) | Action::Erase(_) => Ok(None),
        };
        Ok(connection.with_transport_options(Box::new(transport)).with_credentials(answer))
    }

    fn timed_out(&self) -> GitError {
        GitError::TimedOut { what: format!("reading {}", self.address) }
    }

    /// Finds out of which kind an error is; the library itself tells only some apart.
    fn explain(&self, error: gix::Error) -> GitError {
        let repository = self.address.to_string();
        if Instant::now() >= self.deadline {
            return self.timed_out();
        }
        let said: Vec<String> = error.iter_errors().map(ToString::to_string).collect();
        let says = |text: &str| said.iter().any(|one| one.contains(text));
        if error.is_not_found() || says("HTTP status 404") || says("HTTP status 410") {
            return GitError::Gone { repository };
        }
        let forbidden = says("HTTP status 401") || says("HTTP status 403");
        if error.is_unauthenticated() || error.is_permission_denied() || forbidden {
            return GitError::Unauthorized { repository };
        }
        GitError::Unavailable { repository, source: said.join(": ").into() }
    }
}

/// Scheme and host with the slash after them.
fn origin(address: &Address) -> Option<String> {
    let url = address.to_string();
    let (scheme, rest) = url.split_once("://")?;
    Some(format!("{scheme}://{}/", rest.split_once('/')?.0))
}

/// What fetches have brought so far.
fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder);
    files.into_iter().flatten().flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}
