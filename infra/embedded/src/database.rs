//! One SQLite file: WAL, synchronous FULL, one writer thread that commits what waits in one go, a few readers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ports::PortError;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{oneshot, watch};

/// The versioned migrations, in their order.
const MIGRATIONS: [&str; 4] = [
    include_str!("../migrations/0001_initial.sql"),
    include_str!("../migrations/0002_living.sql"),
    include_str!("../migrations/0003_trace.sql"),
    include_str!("../migrations/0004_begun.sql"),
];

/// How many writes share one commit at most.
const GROUP: usize = 64;
/// How many connections read at once.
const READERS: usize = 4;

/// Why a database can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// It can't be used now; nothing says that the store is damaged.
    #[error("{path} can't be used now; {hint}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
        /// Why.
        source: rusqlite::Error,
    },
    /// SQLite doesn't take it for a store.
    #[error("{path} can't be opened as a store; restore a backup, or move the file away to begin anew")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// It is something else.
    #[error("{path} is no store of Runtime Cloud; give the file of a backup, as in the folder backups/")]
    NoStore {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("{path} is damaged ({problem}); restore a backup with `runtime-cloud backup restore`")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        problem: String,
    },
    /// A newer program wrote it.
    #[error(
        "{path} was written by a newer version (schema {found}, this one knows {known}); upgrade runtime-cloud"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum WriteFault {
    /// Nothing of it is there.
    NotApplied(PortError),
    /// Nobody knows.
    Unknown(PortError),
}

impl From<WriteFault> for PortError {
    fn from(fault: WriteFault) -> PortError {
        match fault {
            WriteFault::NotApplied(e) | WriteFault::Unknown(e) => e,
        }
    }
}

/// Runs inside a transaction; without one it only learns its fate.
type Job = Box<dyn FnOnce(Option<&Connection>) -> After + Send>;
/// What a job does once the commit's fate is known.
type After = Box<dyn FnOnce(Result<(), &Fate>) + Send>;

/// When a write has to be on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// Before its answer.
    Now,
    /// With the next write that is: losing it to a power cut only makes something happen again.
    Soon,
}

struct Fate {
    unknown: bool,
    text: String,
}

/// A database. Clones share it.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    jobs: mpsc::Sender<(Durable, Job)>,
    readers: Mutex<Vec<Connection>>,
    touched: Mutex<HashMap<String, watch::Sender<u64>>>,
    failed: watch::Sender<Option<String>>,
}

impl Database {
    /// Opens a file, checks it and brings it to the newest schema.
    pub fn open(path: &Path) -> Result<Database, DatabaseError> {
        let writer = sound(path, path)?;
        migrate(&writer, path)?;
        let mut readers = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            readers.push(connect(path, true).map_err(|e| unopened(path, e))?);
        }
        let (jobs, queue) = mpsc::channel();
        let (failed, _) = watch::channel(None);
        let inner = Inner {
            path: path.to_owned(),
            jobs,
            readers: Mutex::new(readers),
            touched: Mutex::default(),
            failed,
        };
        let inner = Arc::new(inner);
        let failing = inner.failed.clone();
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_loop(&writer, &queue, &failing))
            .map_err(|e| {
                let source = rusqlite::Error::ToSqlConversionFailure(Box::new(e));
                let hint = "the machine gives no thread for its writer: free some, then start again";
                DatabaseError::Unusable { path: path.to_owned(), hint, source }
            })?;
        Ok(Database { inner })
    }

    /// Checks a copy that nobody has open: a sound store of this version or an older one. All of it is in the one
    /// file afterwards. What is wrong names the file that was copied.
    pub(crate) fn check(copy: &Path, of: &Path) -> Result<(), DatabaseError> {
        let connection = sound(copy, of)?;
        let at = |e| unopened(of, e);
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table'
                   AND name IN ('ProvisioningRuns', 'EnvironmentSlots', 'Events', 'Messages')";
        let tables: i64 = connection.query_row(sql, [], |r| r.get(0)).map_err(at)?;
        if tables != 4 {
            return Err(DatabaseError::NoStore { path: of.to_owned() });
        }
        migrate(&connection, of)?;
        fold(&connection, of)
    }

    /// Puts what only a file's log holds into the file, which nobody has open.
    pub(crate) fn fold(path: &Path) -> Result<(), DatabaseError> {
        fold(&sound(path, path)?, path)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Changes whenever something of that name was written: a queue, or what waits to leave.
    pub(crate) fn watch(&self, name: &str) -> watch::Receiver<u64> {
        let mut touched = self.inner.touched.lock().unwrap_or_else(PoisonError::into_inner);
        touched.entry(name.to_owned()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Wakes who watches that name. Whoever dies before this is found by a look every now and then.
    pub(crate) fn touched(&self, name: &str) {
        let touched = self.inner.touched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = touched.get(name) {
            sender.send_modify(|n| *n += 1);
        }
    }

    /// Says why once the disk can't be trusted any more: the host stops then.
    pub fn failed(&self) -> watch::Receiver<Option<String>> {
        self.inner.failed.subscribe()
    }

    /// Runs a write; what waits at the same time is committed in one go. Its own failure undoes it alone.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, WriteFault> {
        self.write_as(Durable::Now, work).await
    }

    /// Runs a write that a power cut may undo, as long as nothing durable came after it: what is received, settled or
    /// sent then comes again, as any message can. It saves a sync of the disk.
    pub(crate) async fn write_soon<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, WriteFault> {
        self.write_as(Durable::Soon, work).await
    }

    async fn write_as<T: Send + 'static>(
        &self,
        durable: Durable,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, WriteFault> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let result = connection.map(|connection| savepoint(connection, work));
            Box::new(move |fate| {
                let result = match (result, fate) {
                    (Some(Ok(value)), Ok(())) => Ok(value),
                    (Some(Ok(_)), Err(fate)) => {
                        let error = PortError::unavailable("the store", fate.text.clone());
                        Err(if fate.unknown {
                            WriteFault::Unknown(error)
                        } else {
                            WriteFault::NotApplied(error)
                        })
                    }
                    (Some(Err(e)), _) => Err(WriteFault::NotApplied(fault(e))),
                    (None, fate) => {
                        let why = fate.err().map_or("it had no transaction", |fate| fate.text.as_str());
                        Err(WriteFault::NotApplied(PortError::unavailable("the store", why.to_owned())))
                    }
                };
                // Who asked may have gone; the write stands.
                drop(answer.send(result));
            })
        });
        let gone = || PortError::unavailable("the store", "its writer has stopped");
        self.inner.jobs.send((durable, job)).map_err(|_| WriteFault::NotApplied(gone()))?;
        answered.await.unwrap_or_else(|_| Err(WriteFault::Unknown(gone())))
    }

    /// Runs a read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, PortError> {
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || {
            let pooled = inner.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match pooled {
                Some(connection) => connection,
                None => connect(&inner.path, true)?,
            };
            let result = work(&connection);
            let mut readers = inner.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if readers.len() < READERS {
                readers.push(connection);
            }
            result
        });
        match task.await {
            Ok(result) => result.map_err(fault),
            Err(e) => Err(PortError::unavailable("the store", e)),
        }
    }
}

fn fold(connection: &Connection, named: &Path) -> Result<(), DatabaseError> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(|e| unopened(named, e))
}

/// A connection to a file in which SQLite finds no damage.
fn sound(path: &Path, named: &Path) -> Result<Connection, DatabaseError> {
    let connection = connect(path, false).map_err(|e| unopened(named, e))?;
    let check: rusqlite::Result<String> = connection.query_row("PRAGMA quick_check(1)", [], |r| r.get(0));
    match check {
        Ok(answer) if answer == "ok" => Ok(connection),
        Ok(problem) => Err(DatabaseError::Damaged { path: named.to_owned(), problem }),
        Err(e) => Err(unopened(named, e)),
    }
}

/// Why a file could not be opened. Only SQLite's own word makes a store a damaged one: a full disk, a failing one or
/// a missing right says nothing of it.
fn unopened(path: &Path, source: rusqlite::Error) -> DatabaseError {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, PermissionDenied, ReadOnly,
        SystemIoFailure,
    };
    let path = path.to_owned();
    let hint = match source.sqlite_error_code() {
        Some(DiskFull) => "its disk is full: free some space, then start again; the store stays as it is",
        Some(SystemIoFailure) => "its disk is full or fails: look at the disk, then start again",
        Some(CannotOpen | PermissionDenied | ReadOnly) => {
            "see that its folder is there and that you may write it"
        }
        Some(DatabaseBusy | DatabaseLocked) => "another program holds it: end that program, then start again",
        Some(DatabaseCorrupt) => return DatabaseError::Damaged { path, problem: source.to_string() },
        Some(_) | None => return DatabaseError::Sqlite { path, source },
    };
    DatabaseError::Unusable { path, hint, source }
}

fn connect(path: &Path, reading: bool) -> rusqlite::Result<Connection> {
    let flags = if reading {
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX
    };
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(64);
    if !reading {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
    }
    Ok(connection)
}

fn migrate(connection: &Connection, path: &Path) -> Result<(), DatabaseError> {
    let at = |e| unopened(path, e);
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found: i64 = connection.query_row("PRAGMA user_version", [], |r| r.get(0)).map_err(at)?;
    if found > known {
        return Err(DatabaseError::Newer { path: path.to_owned(), found, known });
    }
    for (version, sql) in (1_i64..).zip(MIGRATIONS) {
        if version > found {
            let all = format!("BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {version};\nCOMMIT;");
            connection.execute_batch(&all).map_err(at)?;
        }
    }
    Ok(())
}

fn savepoint<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.execute_batch("SAVEPOINT job")?;
    match work(connection) {
        Ok(value) => {
            connection.execute_batch("RELEASE job")?;
            Ok(value)
        }
        Err(e) => {
            // What can't be undone alone is undone with its whole transaction; its end is seen by the loop.
            if let Err(undo) = connection.execute_batch("ROLLBACK TO job; RELEASE job") {
                tracing::error!(error = %undo, "a write can't be undone alone");
                drop(connection.execute_batch("ROLLBACK"));
            }
            Err(e)
        }
    }
}

fn write_loop(
    connection: &Connection,
    queue: &mpsc::Receiver<(Durable, Job)>,
    failed: &watch::Sender<Option<String>>,
) {
    while let Ok(first) = queue.recv() {
        let mut jobs = vec![first];
        while jobs.len() < GROUP {
            match queue.try_recv() {
                Ok(job) => jobs.push(job),
                Err(_) => break,
            }
        }
        let mut afters: Vec<After> = Vec::with_capacity(jobs.len());
        // In WAL mode a commit under FULL syncs all that was written before it, too.
        let begin = if jobs.iter().any(|(durable, _)| *durable == Durable::Now) {
            "PRAGMA synchronous = FULL; BEGIN IMMEDIATE"
        } else {
            "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE"
        };
        let fate = match connection.execute_batch(begin) {
            Err(e) => {
                // Nothing ran; each is told so.
                tracing::error!(error = %e, "the store can't begin a transaction");
                let fate = Fate { unknown: false, text: e.to_string() };
                for (_, job) in jobs {
                    job(None)(Err(&fate));
                }
                continue;
            }
            Ok(()) => {
                let mut open = Some(connection);
                for (_, job) in jobs {
                    afters.push(job(open));
                    // Some errors, a full disk among them, undo the whole transaction: outside of one the next job
                    // would be committed alone.
                    open = open.filter(|c| !c.is_autocommit());
                }
                match open {
                    Some(connection) => {
                        connection.execute_batch("COMMIT").map_err(|e| (!is_full(&e), e.to_string()))
                    }
                    None => Err((
                        false,
                        "the disk is full or fails: all of the transaction was undone".to_owned(),
                    )),
                }
            }
        };
        match fate {
            Ok(()) => {
                for after in afters {
                    after(Ok(()));
                }
            }
            Err((unknown, text)) => {
                let in_transaction = !connection.is_autocommit();
                if in_transaction && let Err(undo) = connection.execute_batch("ROLLBACK") {
                    tracing::error!(error = %undo, "the store can't roll back");
                }
                // A full disk undoes the commit; a failed fsync leaves its fate open, and the disk is not trusted
                // any more.
                let fate = Fate { unknown, text };
                for after in afters {
                    after(Err(&fate));
                }
                if unknown {
                    failed.send_replace(Some(fate.text));
                }
            }
        }
    }
}

fn is_full(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            rusqlite::ErrorCode::DiskFull
                | rusqlite::ErrorCode::DatabaseBusy
                | rusqlite::ErrorCode::DatabaseLocked
        )
    )
}

/// A fault of SQLite at the port.
pub(crate) fn fault(error: rusqlite::Error) -> PortError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
            PortError::broken_by(
                "the store is damaged",
                "restore a backup with `runtime-cloud backup restore`",
                error,
            )
        }
        _ => PortError::unavailable("the store", error),
    }
}

/// Milliseconds since 1970, as the tables hold times.
pub(crate) fn millis(time: chrono::DateTime<chrono::Utc>) -> i64 {
    time.timestamp_millis()
}

/// A time from the tables.
pub(crate) fn time(millis: i64) -> chrono::DateTime<chrono::Utc> {
    chrono::DateTime::from_timestamp_millis(millis).unwrap_or_default()
}

/// A value that a table holds as text.
pub(crate) fn uuid(text: &str) -> uuid::Uuid {
    text.parse().unwrap_or_default()
}
