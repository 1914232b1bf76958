//! The contract of every port, kept by the adapters for AWS on an emulator: plain, under fault decorators, and behind a
//! proxy that fails as AWS does.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test ends by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use contract::cases::{self, artifacts, bus, config, queue_groups, secrets};
use contract::faults::{Fault, Faults, FaultyQueue, FaultyReceipts, FaultyRows};
use contract::{Case, Sample};
use emulator::{Emulator, Proxy};
use libtest_mimic::{Arguments, Trial};
use ports::{Queue, Receipts, Rows};
use serde_json::{Value, json};

use support::{Account, account_faults, connect};

/// A way of failing under which a table still has to hold.
#[derive(Clone, Copy)]
enum Dress {
    Plain,
    Decorated(fn() -> Faults),
    /// Rules of the proxy.
    Proxied(fn() -> Value),
}

type Named = (&'static str, Dress);

const PLAIN: Named = ("plain", Dress::Plain);
const EVERY_THIRD_LOST: Named =
    ("every-third-answer-lost", Dress::Decorated(|| Faults::every(3, Fault::AnswerLost)));
const THROTTLED: Named = (
    "aws-throttles",
    Dress::Proxied(|| {
        json!([{"service": "dynamodb", "sequence": {"fail": 1, "pass": 6},
                "error": {"code": "ProvisionedThroughputExceededException"}},
               {"service": "s3", "sequence": {"fail": 1, "pass": 6}, "error": {"code": "SlowDown", "status": 503}},
               {"service": "sqs", "sequence": {"fail": 1, "pass": 6}, "error": {"code": "RequestThrottled", "status": 503}}])
    }),
);
const BROKEN: Named = (
    "aws-says-500",
    Dress::Proxied(|| {
        json!([{"service": "*", "sequence": {"fail": 1, "pass": 6},
                "error": {"code": "InternalServerError", "status": 500}}])
    }),
);
const RESET: Named = (
    "connections-reset-before",
    Dress::Proxied(|| json!([{"service": "*", "sequence": {"fail": 1, "pass": 12}, "reset": true}])),
);
const ANSWER_CUT: Named = (
    "answers-lost-after",
    Dress::Proxied(
        || json!([{"service": "*", "sequence": {"fail": 1, "pass": 12}, "response": {"abort_frac": 0.3}}]),
    ),
);
const SLOW: Named =
    ("aws-is-slow", Dress::Proxied(|| json!([{"service": "*", "latency": {"min": 1, "max": 40}}])));
const CONFLICTS: Named = (
    "transactions-conflict",
    Dress::Proxied(|| {
        json!([{"service": "dynamodb", "operation": "TransactWriteItems", "sequence": {"fail": 1, "pass": 2},
                "error": {"code": "TransactionCanceledException", "status": 400,
                          "fields": {"CancellationReasons": [{"Code": "TransactionConflict"}]}}}])
    }),
);

const ROWS: &[Named] = &[PLAIN, EVERY_THIRD_LOST, THROTTLED, BROKEN, RESET, ANSWER_CUT, CONFLICTS];
const FILES: &[Named] = &[PLAIN, THROTTLED, BROKEN, RESET, ANSWER_CUT];
const ALONE: &[Named] = &[PLAIN];

/// For everything that needs no clock of its own.
static SHARED: LazyLock<Emulator> = LazyLock::new(Emulator::start);

/// One proxy for each way of failing, before the shared emulator.
static PROXIES: Mutex<BTreeMap<String, Proxy>> = Mutex::new(BTreeMap::new());

fn proxy_of(rules: &Value) -> String {
    let mut proxies = PROXIES.lock().unwrap();
    let proxy = proxies.entry(rules.to_string()).or_insert_with(|| {
        let proxy = Proxy::before(&SHARED.url());
        proxy.fail(rules);
        proxy
    });
    proxy.url()
}

/// An account of a case's own, on the shared emulator, or behind a proxy before it.
struct Stage {
    account: Account,
    /// The same without what fails.
    bare: Account,
    faults: Option<Faults>,
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
}

fn stage(dress: Dress, what: fn(&Account) -> futures::future::BoxFuture<'_, ()>) -> Stage {
    let url = SHARED.url();
    let bare = block(connect(&url, &SHARED));
    block(what(&bare));
    let (account, faults) = match dress {
        Dress::Plain => (bare.clone(), None),
        Dress::Decorated(faults) => (bare.clone(), Some(faults())),
        Dress::Proxied(rules) => (block(bare.through(&proxy_of(&rules()))), None),
    };
    Stage { account, bare, faults }
}

/// Trials of a table: each case in each dress, with a subject of its own.
fn trials<S: Send + 'static>(
    port: &str,
    table: fn() -> Vec<Case<S>>,
    dresses: &[Named],
    subject: fn(Dress) -> (S, Box<dyn std::any::Any + Send>),
) -> Vec<Trial> {
    let mut trials = vec![];
    for (name, dress) in dresses.iter().copied() {
        for case in table() {
            trials.push(Trial::test(format!("{port}/{name}/{}", case.name), move || {
                let runtime =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
                runtime.block_on(async {
                    let (subject, kept) = tokio::spawn(async move { subject(dress) }).await.unwrap();
                    (case.run)(subject).await;
                    drop(kept);
                });
                Ok(())
            }));
        }
    }
    trials
}

fn database(dress: Dress) -> (cases::Database, Box<dyn std::any::Any + Send>) {
    let stage = stage(dress, |account| Box::pin(account.make_tables()));
    let bare: Arc<dyn Rows> = Arc::new(stage.bare.rows());
    let rows: Arc<dyn Rows> = match stage.faults {
        None => Arc::new(stage.account.rows()),
        Some(faults) => Arc::new(FaultyRows::new(Arc::clone(&bare), faults)),
    };
    let letters = Arc::new(stage.bare.letters());
    (cases::Database { rows, bare, letters, sample: Arc::new(Sample::default()) }, Box::new(()))
}

fn receipts(dress: Dress) -> (Arc<dyn Receipts>, Box<dyn std::any::Any + Send>) {
    let stage = stage(dress, |account| Box::pin(account.make_bucket()));
    let receipts: Arc<dyn Receipts> = Arc::new(stage.account.receipts());
    let receipts = match stage.faults {
        None => receipts,
        Some(faults) => Arc::new(FaultyReceipts::new(receipts, faults)),
    };
    (receipts, Box::new(()))
}

fn artifacts(dress: Dress) -> (artifacts::Subject, Box<dyn std::any::Any + Send>) {
    let stage = stage(dress, |account| Box::pin(account.make_bucket()));
    let account = stage.bare.clone();
    let tamper = move |digest: &domain::Digest, bytes: &[u8]| block(account.tamper(digest, bytes));
    let subject =
        artifacts::Subject { artifacts: Arc::new(stage.account.artifacts()), tamper: Arc::new(tamper) };
    (subject, Box::new(()))
}

/// With an emulator of its own, as its clock moves.
fn queue(dress: Dress) -> (queue_groups::Subject, Box<dyn std::any::Any + Send>) {
    let emulator = Arc::new(Emulator::start());
    let account = block(connect(&emulator.url(), &emulator));
    block(account.make_queues(&["Planner", "Applier"]));
    let (proxy, account) = match dress {
        Dress::Proxied(rules) => {
            let proxy = Proxy::before(&emulator.url());
            proxy.fail(&rules());
            let through = block(account.through(&proxy.url()));
            (Some(proxy), through)
        }
        Dress::Plain | Dress::Decorated(_) => (None, account),
    };
    let queue: Arc<dyn Queue> = Arc::new(account.queue());
    let queue = match dress {
        Dress::Decorated(faults) => Arc::new(FaultyQueue::new(queue, faults())),
        Dress::Plain | Dress::Proxied(_) => queue,
    };
    let clock = Arc::clone(&emulator);
    let subject = queue_groups::Subject { queue, pass: Arc::new(move |time: Duration| clock.pass(time)) };
    (subject, Box::new((emulator, proxy)))
}

fn bus(dress: Dress) -> (bus::Subject, Box<dyn std::any::Any + Send>) {
    let stage = stage(dress, |account| Box::pin(account.make_bus(&["TrackDeclared", "Audit"])));
    let bare = stage.bare.clone();
    let subject = bus::Subject {
        bus: Arc::new(stage.account.bus()),
        queue: Arc::new(stage.bare.queue_of_rules()),
        arrived: Arc::new(move || {
            let bare = bare.clone();
            Box::pin(async move { bare.arrived().await })
        }),
    };
    (subject, Box::new(()))
}

fn config(dress: Dress) -> (config::Subject, Box<dyn std::any::Any + Send>) {
    let stage = stage(dress, |_| Box::pin(async {}));
    let values = stage.bare.parameters();
    let subject = config::Subject {
        config: Arc::new(stage.account.parameters()),
        set: Arc::new(move |tenant, reference, value| {
            let values = values.clone();
            Box::pin(async move {
                values.set(&tenant, &reference, &value).await.expect("a value is set");
            })
        }),
    };
    (subject, Box::new(()))
}

fn secrets(dress: Dress) -> (secrets::Subject, Box<dyn std::any::Any + Send>) {
    let stage = stage(dress, |_| Box::pin(async {}));
    let values = stage.bare.secrets();
    let subject = secrets::Subject {
        secrets: Arc::new(stage.account.secrets()),
        set: Arc::new(move |tenant, reference, value| {
            let values = values.clone();
            let value = ports::Secret::new(value);
            Box::pin(async move { values.set(&tenant, &reference, &value).await.expect("a secret is set") })
        }),
    };
    (subject, Box::new(()))
}

/// With nothing of its own.
fn faults(name: &str, dress: Dress, case: fn(&Account) -> futures::future::BoxFuture<'_, ()>) -> Trial {
    Trial::test(format!("faults/{name}"), move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let stage = tokio::spawn(async move { stage(dress, |_| Box::pin(async {})) }).await.unwrap();
            case(&stage.account).await;
        });
        Ok(())
    })
}

const EXPIRED: Dress = Dress::Proxied(|| {
    json!([{"service": "*", "error": {"code": "ExpiredTokenException", "status": 400,
            "message": "The security token included in the request is expired"}}])
});

fn main() {
    let mut all = vec![];
    all.extend(trials("rows/commits", cases::commits::table, ROWS, database));
    all.extend(trials("rows/commits", cases::commits::table, &[SLOW], database));
    all.extend(trials("rows/counters", cases::counters::table, ROWS, database));
    all.extend(trials("rows/claims", cases::claims::table, ROWS, database));
    all.extend(trials("rows/letters", cases::letters::table, ROWS, database));
    all.extend(trials("rows/listings", cases::listings::table, ROWS, database));
    all.extend(trials("rows/limits", cases::limits::table, ALONE, database));
    all.extend(trials("rows/lost-answers", cases::lost_answers::table, ALONE, database));
    all.extend(trials("rows/crowds", cases::crowds::table, &[PLAIN, THROTTLED, CONFLICTS], database));
    all.extend(trials("rows/crashes", cases::crashes::table, ALONE, database));
    all.extend(trials("receipts", cases::receipts::table, FILES, receipts));
    all.extend(trials("artifacts", cases::artifacts::table, FILES, artifacts));
    all.extend(trials("queue/groups", cases::queue_groups::table, &[PLAIN, THROTTLED], queue));
    all.extend(trials("queue/leases", cases::queue_leases::table, &[PLAIN, THROTTLED], queue));
    all.extend(trials("bus", cases::bus::at_least_once, &[PLAIN, THROTTLED, SLOW], bus));
    all.extend(trials("config", cases::config::table, FILES, config));
    all.extend(trials("secrets", cases::secrets::table, FILES, secrets));
    all.push(faults("missing", Dress::Plain, |a| Box::pin(account_faults::what_is_missing_is_named(a))));
    all.push(faults("expired", EXPIRED, |a| Box::pin(account_faults::expired_credentials_are_said(a))));
    let ended = libtest_mimic::run(&Arguments::from_args(), all);
    // Statics are never dropped: their processes end here.
    PROXIES.lock().unwrap().clear();
    SHARED.stop();
    ended.exit();
}
