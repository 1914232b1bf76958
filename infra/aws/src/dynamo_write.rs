//! Commits on DynamoDB: one operation is one item of a transaction, so the reasons of a cancelled one line up with the
//! operations. A commit that puts one row alone is a plain conditional put.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use ports::PortError;
use ports::commit::{Commit, CommitError, Committed, Conflict, Op};
use uuid::Uuid;

use crate::dynamo_item::{self, Body, Item, amount, free, limit, number, text};
use crate::dynamo_rows::DynamoRows;
use crate::fault::{Outcome, fault, outcome};

/// A body that is longer lies in the bucket: an item costs a write unit for each kilobyte, and holds 400 of them.
const LONG_BODY: usize = 64 * 1024;
/// How often a write that was not done is tried again here.
const ATTEMPTS: u32 = 6;
/// Claims are removed by DynamoDB itself so long after their time, at the earliest.
const CLAIM_LEFT: i64 = 3600;

const OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

/// What one attempt came to.
enum Attempt {
    Ended(Committed),
    /// It was not done.
    Again(PortError),
    Failed(CommitError),
}

/// Writes all of a commit or nothing of it.
pub(crate) async fn write(rows: &DynamoRows, commit: &Commit) -> Result<Committed, CommitError> {
    commit.check().map_err(CommitError::NotApplied)?;
    let items = items(rows, commit).await.map_err(CommitError::NotApplied)?;
    let mut last = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(pause(commit, attempt)).await;
        }
        let came = match (&commit.ops[..], &items[..]) {
            ([op @ Op::Put { .. }], [item]) => put_alone(rows, op, item).await,
            (_, items) => transact(rows, commit, items).await,
        };
        match came {
            Attempt::Ended(committed) => return Ok(committed),
            Attempt::Failed(error) => return Err(error),
            Attempt::Again(error) => last = Some(error),
        }
    }
    let busy = || PortError::unavailable("DynamoDB", "it is too busy");
    Err(CommitError::NotApplied(last.unwrap_or_else(busy)))
}

/// Doubling, and another for each commit, so that those that met once don't meet again.
fn pause(commit: &Commit, attempt: u32) -> Duration {
    let [.., a, b] = *commit.id.0.as_bytes();
    let spread = u64::from(u16::from_le_bytes([a, b]).rotate_left(attempt)) % 100;
    Duration::from_millis((10_u64 << attempt) + spread * u64::from(attempt))
}

/// An operation as DynamoDB takes it, whole or within a transaction.
struct Written {
    table: String,
    key: Item,
    put: Option<Item>,
    update: Option<String>,
    condition: String,
    names: HashMap<String, String>,
    values: Item,
}

impl Written {
    fn on(table: String, key: &str, value: &str) -> Written {
        Written {
            table,
            key: Item::from([(key.to_owned(), text(value))]),
            put: None,
            update: None,
            condition: String::new(),
            names: HashMap::new(),
            values: Item::new(),
        }
    }
    fn name(mut self, short: &str, attribute: &str) -> Written {
        self.names.insert(short.to_owned(), attribute.to_owned());
        self
    }
    fn value(mut self, short: String, value: i64) -> Written {
        self.values.insert(short, number(value));
        self
    }
    fn values(&self) -> Option<Item> {
        Some(self.values.clone()).filter(|v| !v.is_empty())
    }
    fn condition(mut self, condition: &str) -> Written {
        condition.clone_into(&mut self.condition);
        self
    }
}

async fn items(rows: &DynamoRows, commit: &Commit) -> Result<Vec<Written>, PortError> {
    let mut items = Vec::with_capacity(commit.ops.len());
    for op in &commit.ops {
        items.push(item(rows, commit, op).await?);
    }
    Ok(items)
}

async fn item(rows: &DynamoRows, commit: &Commit, op: &Op) -> Result<Written, PortError> {
    let tables = &rows.tables;
    Ok(match op {
        Op::Put { row, replaces, letters } => {
            // Written before the commit that names it: one that nothing names is harmless.
            let body = if row.body.len() > LONG_BODY {
                Body::InBucket(rows.bodies.put(&row.body).await?)
            } else {
                Body::Here(&row.body)
            };
            let mut written = Written::on(tables.of(row.key.kind), "key", &row.key.text);
            written.put = Some(dynamo_item::put(row, &body, letters, commit.id)?);
            match replaces {
                None => written.name("#key", "key").condition("attribute_not_exists(#key)"),
                Some(version) => at_version(written, version.0),
            }
        }
        Op::Unchanged { key, version } => {
            at_version(Written::on(tables.of(key.kind), "key", &key.text), version.0)
        }
        Op::Count { counter, by } => {
            let mut written = Written::on(tables.counters(), "counter", counter);
            let (mut changes, mut conditions) = (vec![], vec![]);
            for (place, (name, by)) in by.iter().enumerate() {
                let (short, value) = (format!("#f{place}"), format!(":b{place}"));
                changes.push(format!("{short} = {short} - {value}"));
                // DynamoDB's conditions know no arithmetic: what is free stands by itself. Giving back needs none.
                conditions.push(if *by > 0 {
                    format!("{short} >= {value}")
                } else {
                    format!("attribute_exists({short})")
                });
                written = written.name(&short, &free(name)).value(value, *by);
            }
            written.update = Some(format!("SET {}", changes.join(", ")));
            written.condition(&conditions.join(" AND "))
        }
        Op::SetLimit { counter, name, from, to } => {
            let mut written = Written::on(tables.counters(), "counter", counter)
                .name("#free", &free(name))
                .name("#limit", &limit(name))
                .value(":to".to_owned(), *to);
            match from {
                None => {
                    written.update = Some("SET #free = :to, #limit = :to".to_owned());
                    written.condition("attribute_not_exists(#limit)")
                }
                Some(from) => {
                    written.update = Some("SET #free = #free + :moved, #limit = :to".to_owned());
                    written
                        .value(":moved".to_owned(), to - from)
                        .value(":from".to_owned(), *from)
                        .condition("#limit = :from")
                }
            }
        }
        Op::Claim { name, until, now } => {
            let mut written = Written::on(tables.claims(), "name", name)
                .name("#name", "name")
                .name("#until", "until")
                .value(":now".to_owned(), now.timestamp_millis());
            written.put = Some(Item::from([
                ("name".to_owned(), text(name)),
                ("until".to_owned(), number(until.timestamp_millis())),
                ("commit".to_owned(), text(commit.id.0)),
                ("ttl".to_owned(), number(until.timestamp() + CLAIM_LEFT)),
            ]));
            // A claim past its time counts as absent, however long DynamoDB leaves it there.
            written.condition("attribute_not_exists(#name) OR #until <= :now")
        }
    })
}

fn at_version(written: Written, version: u64) -> Written {
    let mut written = written.name("#version", "version").condition("#version = :version");
    written.values.insert(":version".to_owned(), number(version));
    written
}

/// A write is never repeated by the SDK itself: after a lost answer its own first write would look like another's.
fn once() -> aws_sdk_dynamodb::config::Builder {
    aws_sdk_dynamodb::config::Builder::new().retry_config(RetryConfig::disabled())
}

async fn put_alone(rows: &DynamoRows, op: &Op, written: &Written) -> Attempt {
    let sent = rows
        .client
        .put_item()
        .table_name(&written.table)
        .set_item(written.put.clone())
        .condition_expression(&written.condition)
        .set_expression_attribute_names(Some(written.names.clone()))
        .set_expression_attribute_values(written.values())
        .customize()
        .config_override(once())
        .send()
        .await;
    match sent {
        Ok(_) => Attempt::Ended(Committed::Yes),
        Err(e) if e.as_service_error().is_some_and(|e| e.is_conditional_check_failed_exception()) => {
            Attempt::Ended(Committed::Conflict(conflicts(op, None)))
        }
        Err(e) => failed(&written.table, e),
    }
}

fn failed<E>(what: &str, error: SdkError<E, HttpResponse>) -> Attempt
where
    E: aws_sdk_dynamodb::error::ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match outcome(&error) {
        Outcome::Unknown => Attempt::Failed(CommitError::Unknown(fault(what, error))),
        Outcome::NotDone => Attempt::Again(fault(what, error)),
        Outcome::Refused => Attempt::Failed(CommitError::NotApplied(fault(what, error))),
    }
}

async fn transact(rows: &DynamoRows, commit: &Commit, items: &[Written]) -> Attempt {
    let built: Result<Vec<_>, _> = items.iter().map(transact_item).collect();
    let built = match built {
        Ok(built) => built,
        Err(e) => {
            let broken = PortError::broken_by("a commit can't be written", "report this", e);
            return Attempt::Failed(CommitError::NotApplied(broken));
        }
    };
    let sent = rows
        .client
        .transact_write_items()
        .set_transact_items(Some(built))
        // The same bytes under the same name are written once, for ten minutes.
        .client_request_token(token(&rows.tables.prefix, commit).to_string())
        .customize()
        .config_override(once())
        .send()
        .await;
    let error = match sent {
        Ok(_) => return Attempt::Ended(Committed::Yes),
        Err(error) => error,
    };
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            let reasons = cancelled.cancellation_reasons();
            let mut all = vec![];
            for (op, reason) in commit.ops.iter().zip(reasons) {
                if reason.code() == Some("ConditionalCheckFailed") {
                    all.extend(conflicts(op, reason.item()));
                }
            }
            if !all.is_empty() {
                return Attempt::Ended(Committed::Conflict(all));
            }
            let why = said(reasons);
            if reasons.iter().any(|r| r.code() == Some("ValidationError")) {
                let broken = PortError::broken(
                    format!("DynamoDB can't take a commit: {why}"),
                    "this is a defect, report it",
                );
                return Attempt::Failed(CommitError::NotApplied(broken));
            }
            // Others wrote at the same time, or there was too much at once.
            Attempt::Again(PortError::unavailable("DynamoDB", why))
        }
        Some(TransactWriteItemsError::TransactionInProgressException(_)) => {
            let still = "this very commit is still being written";
            Attempt::Failed(CommitError::Unknown(PortError::unavailable("DynamoDB", still)))
        }
        Some(_) | None => failed(&tables(items), error),
    }
}

/// The tables of a transaction, for whoever reads an error.
fn tables(items: &[Written]) -> String {
    let names: BTreeSet<&str> = items.iter().map(|written| &*written.table).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// A commit's name among all stacks of an account.
fn token(prefix: &str, commit: &Commit) -> Uuid {
    Uuid::new_v5(&commit.id.0, prefix.as_bytes())
}

fn said(reasons: &[CancellationReason]) -> String {
    let named = reasons.iter().filter_map(|r| {
        let code = r.code().filter(|c| *c != "None")?;
        Some(r.message().map_or_else(|| code.to_owned(), |m| format!("{code}: {m}")))
    });
    let all: Vec<String> = named.collect();
    if all.is_empty() { "a transaction was cancelled without a reason".to_owned() } else { all.join("; ") }
}

fn transact_item(written: &Written) -> Result<TransactWriteItem, aws_sdk_dynamodb::error::BuildError> {
    let item = TransactWriteItem::builder();
    let names = Some(written.names.clone());
    Ok(match (&written.put, &written.update) {
        (Some(put), _) => {
            let put = Put::builder()
                .table_name(&written.table)
                .set_item(Some(put.clone()))
                .condition_expression(&written.condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(written.values())
                .return_values_on_condition_check_failure(OLD)
                .build()?;
            item.put(put).build()
        }
        (None, Some(update)) => {
            let update = Update::builder()
                .table_name(&written.table)
                .set_key(Some(written.key.clone()))
                .update_expression(update)
                .condition_expression(&written.condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(written.values())
                .return_values_on_condition_check_failure(OLD)
                .build()?;
            item.update(update).build()
        }
        (None, None) => {
            let check = ConditionCheck::builder()
                .table_name(&written.table)
                .set_key(Some(written.key.clone()))
                .condition_expression(&written.condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(written.values())
                .build()?;
            item.condition_check(check).build()
        }
    })
}

/// Which conditions of an operation failed, as the item that was there tells.
fn conflicts(op: &Op, there: Option<&Item>) -> Vec<Conflict> {
    match op {
        Op::Put { row, replaces: None, .. } => vec![Conflict::Exists(row.key.clone())],
        Op::Put { row, replaces: Some(_), .. } => vec![Conflict::Changed(row.key.clone())],
        Op::Unchanged { key, .. } => vec![Conflict::Changed(key.clone())],
        Op::Count { counter, by } => {
            let read = |name: &String| {
                let found = there.and_then(|item| amount(item, &free(name)));
                let limit = there.and_then(|item| amount(item, &limit(name))).unwrap_or_default();
                (found, limit)
            };
            let binds = |(name, by): &(String, i64)| {
                let (found, limit) = read(name);
                let binds = found.is_none_or(|free| *by > 0 && free < *by);
                let used = limit - found.unwrap_or_default();
                binds.then(|| Conflict::Limit {
                    counter: counter.clone(),
                    name: name.clone(),
                    used,
                    limit,
                    by: *by,
                })
            };
            by.iter().filter_map(binds).collect()
        }
        Op::SetLimit { counter, name, .. } => {
            vec![Conflict::LimitMoved { counter: counter.clone(), name: name.clone() }]
        }
        Op::Claim { name, .. } => vec![Conflict::Claimed(name.clone())],
    }
}
