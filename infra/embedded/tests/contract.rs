//! The contract of every port, kept by the embedded adapters: each case with a fresh folder, plain and under faults.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test ends by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contract::cases::{self, artifacts, bus, clock, config, queue_groups, secrets};
use contract::faults::{Fault, Faults, FaultyBus, FaultyQueue, FaultyReceipts, FaultyRows};
use contract::{Case, CountedIds, HandClock, Sample};
use events::Envelope;
use libtest_mimic::{Arguments, Trial};
use ports::{Bus, Queue, Receipts, Rows};
use runtime_cloud_embedded::{
    Database, DiskArtifacts, DiskReceipts, EmbeddedBus, EmbeddedConfig, EmbeddedLetters, EmbeddedQueue,
    FileSecrets, RandomIds, Rule, SqliteRows, SystemClock,
};
use tempfile::TempDir;

/// A way of failing under which a table still has to hold.
type Dress = (&'static str, Option<fn() -> Faults>);

const PLAIN: Dress = ("plain", None);
const LOST: Dress = ("first-answer-lost", Some(|| Faults::first(1, Fault::AnswerLost)));
const LOST_TWICE: Dress = ("two-answers-lost", Some(|| Faults::first(2, Fault::AnswerLost)));
const EVERY_THIRD_LOST: Dress = ("every-third-answer-lost", Some(|| Faults::every(3, Fault::AnswerLost)));
const DUPLICATE: Dress = ("all-twice", Some(|| Faults::every(1, Fault::Duplicate)));
const DELAY: Dress = ("every-second-late", Some(|| Faults::every(2, Fault::Delay)));
const THROTTLE: Dress = ("every-second-throttled", Some(|| Faults::every(2, Fault::Throttle)));

const ALL: &[Dress] = &[PLAIN, LOST, LOST_TWICE, EVERY_THIRD_LOST, DUPLICATE, DELAY, THROTTLE];
const ALONE: &[Dress] = &[PLAIN];

/// Trials of a table: each case in each dress, with a subject of its own in a folder of its own.
fn trials<S: 'static>(
    port: &str,
    table: fn() -> Vec<Case<S>>,
    dresses: &[Dress],
    subject: fn(&Path, Option<Faults>) -> S,
) -> Vec<Trial> {
    let mut trials = vec![];
    for (dress, faults) in dresses {
        for case in table() {
            let faults = *faults;
            trials.push(Trial::test(format!("{port}/{dress}/{}", case.name), move || {
                let folder = TempDir::new()?;
                let runtime =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
                runtime.block_on(async { (case.run)(subject(folder.path(), faults.map(|f| f()))).await });
                Ok(())
            }));
        }
    }
    trials
}

fn open(folder: &Path) -> Database {
    Database::open(&folder.join("store.sqlite")).unwrap()
}

fn database(folder: &Path, faults: Option<Faults>) -> cases::Database {
    let database = open(folder);
    let bare: Arc<dyn Rows> = Arc::new(SqliteRows(database.clone()));
    let rows: Arc<dyn Rows> = match faults {
        None => Arc::clone(&bare),
        Some(faults) => Arc::new(FaultyRows::new(Arc::clone(&bare), faults)),
    };
    cases::Database {
        rows,
        bare,
        letters: Arc::new(EmbeddedLetters(database)),
        sample: Arc::new(Sample::default()),
    }
}

fn receipts(folder: &Path, faults: Option<Faults>) -> Arc<dyn Receipts> {
    let receipts: Arc<dyn Receipts> =
        Arc::new(DiskReceipts { folder: folder.to_owned(), ids: Arc::new(RandomIds) });
    match faults {
        None => receipts,
        Some(faults) => Arc::new(FaultyReceipts::new(receipts, faults)),
    }
}

fn artifacts(folder: &Path, _: Option<Faults>) -> artifacts::Subject {
    let place = folder.to_owned();
    let tamper = move |digest: &domain::Digest, bytes: &[u8]| {
        let file = place.join(&digest.as_str()[..2]).join(digest.as_str());
        assert!(file.exists(), "an artifact lies elsewhere");
        std::fs::write(file, bytes).unwrap();
    };
    artifacts::Subject {
        artifacts: Arc::new(DiskArtifacts { folder: folder.to_owned(), ids: Arc::new(RandomIds) }),
        tamper: Arc::new(tamper),
    }
}

fn queue(folder: &Path, faults: Option<Faults>) -> queue_groups::Subject {
    let clock = Arc::new(HandClock::new());
    let queue: Arc<dyn Queue> = Arc::new(EmbeddedQueue {
        database: open(folder),
        clock: Arc::<HandClock>::clone(&clock),
        ids: Arc::new(CountedIds::default()),
    });
    let queue = match faults {
        None => queue,
        Some(faults) => Arc::new(FaultyQueue::new(queue, faults)),
    };
    queue_groups::Subject { queue, pass: Arc::new(move |time: Duration| clock.pass(time)) }
}

fn bus(folder: &Path, faults: Option<Faults>) -> bus::Subject {
    let (database, clock) = (open(folder), Arc::new(HandClock::new()));
    let group = |envelope: &Envelope| envelope.subject.clone().unwrap_or_default();
    let topic = "provisioning.specifications.v1.specification-declared";
    let rules = ["TrackDeclared", "Audit"].map(|queue| Rule { topic, queue, group });
    let embedded = EmbeddedBus {
        database: database.clone(),
        clock: Arc::<HandClock>::clone(&clock),
        rules: rules.into(),
    };
    let log = embedded.clone();
    let bus: Arc<dyn Bus> = match faults {
        None => Arc::new(embedded),
        Some(faults) => Arc::new(FaultyBus::new(Arc::new(embedded), faults)),
    };
    bus::Subject {
        bus,
        queue: Arc::new(EmbeddedQueue { database, clock, ids: Arc::new(CountedIds::default()) }),
        arrived: Arc::new(move || {
            let log = log.clone();
            Box::pin(
                async move { log.log(0, None, 100).await.unwrap().into_iter().map(|e| e.envelope).collect() },
            )
        }),
    }
}

fn config(folder: &Path, _: Option<Faults>) -> config::Subject {
    let config = EmbeddedConfig { database: open(folder), clock: Arc::new(HandClock::new()) };
    let values = config.clone();
    config::Subject {
        config: Arc::new(config),
        set: Arc::new(move |tenant, reference, value| {
            let values = values.clone();
            Box::pin(async move {
                values.set(&tenant, &reference, &value).await.unwrap();
            })
        }),
    }
}

fn secrets(folder: &Path, _: Option<Faults>) -> secrets::Subject {
    let secrets = FileSecrets { folder: folder.to_owned(), command: None, ids: Arc::new(RandomIds) };
    let files = secrets.clone();
    secrets::Subject {
        secrets: Arc::new(secrets),
        set: Arc::new(move |tenant, reference, value| {
            files.set(&tenant, &reference, &ports::Secret::new(value)).expect("a secret should be set");
            Box::pin(async {})
        }),
    }
}

fn clock(_: &Path, _: Option<Faults>) -> clock::Subject {
    clock::Subject { clock: Arc::new(SystemClock), ids: Arc::new(RandomIds) }
}

fn main() {
    let mut all = vec![];
    all.extend(trials("rows/commits", cases::commits::table, ALL, database));
    all.extend(trials("rows/counters", cases::counters::table, ALL, database));
    all.extend(trials("rows/claims", cases::claims::table, ALL, database));
    all.extend(trials("rows/letters", cases::letters::table, ALL, database));
    all.extend(trials("rows/listings", cases::listings::table, ALL, database));
    all.extend(trials("rows/limits", cases::limits::table, ALONE, database));
    all.extend(trials("rows/lost-answers", cases::lost_answers::table, ALONE, database));
    all.extend(trials("rows/crashes", cases::crashes::table, ALONE, database));
    // Written at once by many, an answer that is lost can't tell its writer that it was the first.
    all.extend(trials("receipts", cases::receipts::table, &[PLAIN, DELAY, THROTTLE], receipts));
    all.extend(trials("receipts", cases::receipts::table, &[LOST, EVERY_THIRD_LOST, DUPLICATE], receipts));
    all.extend(trials("artifacts", cases::artifacts::table, ALONE, artifacts));
    all.extend(trials("queue/groups", cases::queue_groups::table, &[PLAIN, LOST, LOST_TWICE], queue));
    all.extend(trials("queue/leases", cases::queue_leases::table, &[PLAIN, LOST, LOST_TWICE], queue));
    all.extend(trials("bus", cases::bus::table, ALL, bus));
    all.extend(trials("config", cases::config::table, ALONE, config));
    all.extend(trials("secrets", cases::secrets::table, ALONE, secrets));
    all.extend(trials("clock", cases::clock::table, ALONE, clock));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}
