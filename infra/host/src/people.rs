//! Named people of a local host: each has a token in a file that only the owner of the data folder can read, so
//! that who requests and who approves differ.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use domain::Digest;
use domain::aggregate::encode;
use events::{Principal, TenantId};
use http_api::{Caller, Identity};
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

/// The people of a data folder.
pub struct People {
    folder: PathBuf,
    /// By digest of the token, so that a look-up tells nothing by its time.
    known: RwLock<HashMap<Digest, Caller>>,
}

impl People {
    /// Of a data folder.
    pub fn of(data: &Path) -> People {
        People { folder: data.join("people"), known: RwLock::new(HashMap::new()) }
    }

    fn read_all(&self) -> io::Result<()> {
        let mut known = HashMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let Ok(person) = serde_json::from_slice::<Person>(&fs::read(entry?.path())?) else { continue };
            let caller = Caller { principal: person.name, tenant: person.tenant };
            known.insert(Digest::of(person.token.as_bytes()), caller);
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    fn known(&self, token: &Digest) -> Option<Caller> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}

impl Identity for People {
    fn who(&self, token: &str) -> Option<Caller> {
        let token = Digest::of(token.as_bytes());
        // Somebody may have been added since the last look.
        self.known(&token).or_else(|| {
            if let Err(e) = self.read_all() {
                tracing::warn!(error = %e, "the people's folder can't be read");
            }
            self.known(&token)
        })
    }
}

/// The token of a person; whoever may write the data folder may make one.
pub fn token_of(data: &Path, name: &Principal, tenant: &TenantId, ids: &dyn Ids) -> io::Result<Person> {
    let folder = data.join("people");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{}@{}.json", encode(name.as_str()), encode(tenant.as_str())));
    if let Ok(bytes) = fs::read(&file) {
        return serde_json::from_slice(&bytes).map_err(io::Error::other);
    }
    let token = format!("rc_{}{}", ids.fresh().simple(), ids.fresh().simple());
    let person = Person { name: name.clone(), tenant: tenant.clone(), token };
    let temporary = folder.join(format!(".{}.tmp", ids.fresh()));
    let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    out.write_all(&serde_json::to_vec(&person)?)?;
    drop(out);
    let linked = fs::hard_link(&temporary, &file);
    fs::remove_file(&temporary)?;
    match linked {
        Ok(()) => Ok(person),
        // Somebody else was faster: theirs counts.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            serde_json::from_slice(&fs::read(&file)?).map_err(io::Error::other)
        }
        Err(e) => Err(e),
    }
}
