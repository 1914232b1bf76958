//! Named people of a local host: each has a token in a file that only the owner of the data folder can read, so
//! that who requests and who approves differ.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use domain::Digest;
use domain::aggregate::{encode, file_name};
use events::{Principal, TenantId};
use http_api::{Caller, Identity, Problem, Role};
use ports::Ids;
use serde::{Deserialize, Serialize};

/// A person with a token.
#[derive(Clone, Serialize, Deserialize)]
pub struct Person {
    /// Who.
    pub name: Principal,
    /// Whose things they may see and change.
    pub tenant: TenantId,
    /// What they show.
    pub token: String,
}

/// Why somebody has no token.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// The file holds no person.
    #[error("{file} is no person's file; remove it, and the next command writes it anew")]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The file system says no.
    #[error("{file} can't be read or written; see that there is space and that you may write there")]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What tells one state of a file from another, without reading it.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Path) -> io::Result<Stamp> {
        let found = fs::metadata(file)?;
        let changed = (found.ctime(), found.ctime_nsec());
        Ok(Stamp { inode: found.ino(), length: found.len(), changed })
    }
}

/// A person as they were read.
#[derive(Clone)]
struct Known {
    caller: Caller,
    file: PathBuf,
    stamp: Stamp,
}

/// The people of a data folder.
pub struct People {
    folder: PathBuf,
    /// By digest of the token, so that a look-up tells nothing by its time.
    known: RwLock<HashMap<Digest, Known>>,
}

impl People {
    /// Of a data folder.
    pub fn of(data: &Path) -> People {
        People { folder: data.join("people"), known: RwLock::new(HashMap::new()) }
    }

    fn read_all(&self) -> io::Result<()> {
        let mut known = HashMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let file = entry?.path();
            // Others are files that are being written.
            if file.extension().is_none_or(|e| e != "json") {
                continue;
            }
            match read(&file) {
                Ok((token, person)) => {
                    known.insert(token, person);
                }
                // One that can't be read keeps nobody else out.
                Err(e) => tracing::warn!(file = %file.display(), error = %e, "no person; it is left out"),
            }
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    /// Who had a token at the last look, if their file is still the one that was read.
    fn known(&self, token: &Digest) -> Option<Caller> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()?;
        let same = Stamp::of(&known.file).is_ok_and(|stamp| stamp == known.stamp);
        same.then_some(known.caller)
    }
}

fn read(file: &Path) -> io::Result<(Digest, Known)> {
    // Before the content: what changes in between is read again.
    let stamp = Stamp::of(file)?;
    let person: Person = serde_json::from_slice(&fs::read(file)?)?;
    // Whoever may read the folder could have any: people of a local host have every role.
    let caller = Caller { principal: person.name, tenant: person.tenant, roles: Role::ALL.into() };
    Ok((Digest::of(person.token.as_bytes()), Known { caller, file: file.to_owned(), stamp }))
}

#[async_trait]
impl Identity for People {
    async fn who(&self, token: &str) -> Result<Caller, Problem> {
        let token = Digest::of(token.as_bytes());
        // Somebody may have been added, removed or replaced since the last look.
        let known = self.known(&token).or_else(|| {
            if let Err(e) = self.read_all() {
                tracing::warn!(folder = %self.folder.display(), error = %e, "the people can't be read");
            }
            self.known(&token)
        });
        known.ok_or_else(|| {
            let detail =
                "nobody has that token; send `Authorization: Bearer TOKEN` with a token of this host";
            Problem::new(401, "unauthenticated", detail)
        })
    }
}

/// The token of a person; whoever may write the data folder may make one.
pub fn token_of(
    data: &Path,
    name: &Principal,
    tenant: &TenantId,
    ids: &dyn Ids,
) -> Result<Person, PeopleError> {
    let folder = data.join("people");
    // No encoded part has an @, so no two people share a name.
    let person = format!("{}@{}", encode(name.as_str()), encode(tenant.as_str()));
    let file = folder.join(format!("{}.json", file_name(&person)));
    let at = |source| PeopleError::Io { file: file.clone(), source };
    fs::create_dir_all(&folder).map_err(at)?;
    if let Some(person) = person_in(&file)? {
        return Ok(person);
    }
    let token = format!("rc_{}{}", ids.fresh().simple(), ids.fresh().simple());
    let person = Person { name: name.clone(), tenant: tenant.clone(), token };
    let temporary = folder.join(format!(".{}.tmp", ids.fresh()));
    let linked = write(&temporary, &person).and_then(|()| fs::hard_link(&temporary, &file));
    drop(fs::remove_file(&temporary));
    match linked {
        Ok(()) => Ok(person),
        // Somebody else was faster: theirs counts.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => person_in(&file)?.ok_or_else(|| at(e)),
        Err(e) => Err(at(e)),
    }
}

fn person_in(file: &Path) -> Result<Option<Person>, PeopleError> {
    let file = file.to_owned();
    match fs::read(&file) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(person) => Ok(Some(person)),
            Err(source) => Err(PeopleError::Damaged { file, source }),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PeopleError::Io { file, source }),
    }
}

fn write(file: &Path, person: &Person) -> io::Result<()> {
    let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    out.write_all(&serde_json::to_vec(person)?)
}
