//! Rows on DynamoDB. What is read by key is strongly consistent; listings come from indexes that hold keys alone, and
//! may lag.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use domain::{Key, Kind};
use ports::commit::{Commit, CommitError, Committed};
use ports::rows::{Behind, By, CounterRead, Listing, Page, RowRead, Rows};
use ports::{Artifacts, PortError};
use std::sync::Arc;

use crate::dynamo_item::{Item, amount, begun, number, owner, read, text};
use crate::dynamo_write;
use crate::fault::fault;

/// Names of the tables: the specification's, behind the stack's prefix.
#[derive(Debug, Clone)]
pub struct Tables {
    /// For instance `runtime-cloud-`.
    pub prefix: String,
}

impl Tables {
    /// The table of a kind.
    pub fn of(&self, kind: Kind) -> String {
        format!("{}{}", self.prefix, kind.table())
    }
    /// The table of the counters.
    pub fn counters(&self) -> String {
        format!("{}Counters", self.prefix)
    }
    /// The table of the claims.
    pub fn claims(&self) -> String {
        format!("{}Claims", self.prefix)
    }
}

/// The rows of an account's tables.
#[derive(Clone)]
pub struct DynamoRows {
    /// DynamoDB.
    pub client: Client,
    /// The tables.
    pub tables: Tables,
    /// Where long bodies lie.
    pub bodies: Arc<dyn Artifacts>,
}

/// At most so many keys in one batch.
const BATCH: usize = 100;
/// How often what a batch left over is asked for again.
const LEFT_OVER: u32 = 8;

impl DynamoRows {
    /// Makes the connection, so that the first message doesn't.
    pub async fn warm(&self) -> Result<(), PortError> {
        self.counter("warm").await.map(|_| ())
    }

    /// The whole row, with a body that lies in the bucket.
    async fn whole(&self, kind: Kind, item: &Item) -> Result<RowRead, PortError> {
        let found = read(kind, item)?;
        let Some(digest) = found.in_bucket else { return Ok(found.row) };
        let body = self.bodies.get(&digest).await?.ok_or_else(|| {
            PortError::broken(
                format!("the body of {} is missing among the artifacts", found.row.key),
                "restore the bucket from the same backup as the tables",
            )
        })?;
        Ok(RowRead { body, ..found.row })
    }

    /// Reads the rows of keys, in the keys' order.
    async fn batch(&self, kind: Kind, keys: Vec<String>) -> Result<Vec<RowRead>, PortError> {
        let table = self.tables.of(kind);
        let mut items: HashMap<String, Item> = HashMap::new();
        for some in keys.chunks(BATCH) {
            let wanted = some.iter().map(|k| HashMap::from([("key".to_owned(), text(k))]));
            let built = KeysAndAttributes::builder().set_keys(Some(wanted.collect())).build();
            let mut asked =
                built.map_err(|e| PortError::broken_by("a batch can't be asked for", "report this", e))?;
            for attempt in 0.. {
                let answer = self
                    .client
                    .batch_get_item()
                    .request_items(&table, asked)
                    .send()
                    .await
                    .map_err(|e| fault(&table, e))?;
                for item in
                    answer.responses.into_iter().flat_map(|mut r| r.remove(&table).unwrap_or_default())
                {
                    if let Some(key) = item.get("key").and_then(|k| k.as_s().ok()).cloned() {
                        items.insert(key, item);
                    }
                }
                match answer.unprocessed_keys.and_then(|mut u| u.remove(&table)) {
                    None => break,
                    Some(_) if attempt >= LEFT_OVER => {
                        return Err(PortError::unavailable(&*table, "it is too busy to answer a batch"));
                    }
                    Some(left) => {
                        tokio::time::sleep(std::time::Duration::from_millis(20 << attempt)).await;
                        asked = left;
                    }
                }
            }
        }
        let mut rows = Vec::with_capacity(keys.len());
        for key in &keys {
            // An index may be ahead of, or behind, the rows that it names.
            if let Some(item) = items.get(key) {
                rows.push(match self.whole(kind, item).await {
                    Err(e) if !e.is_temporary() => {
                        // Whoever reads it finds that it is nothing; it is in no other row's way.
                        tracing::error!(key, error = %e.chain(), "a row can't be read");
                        RowRead { body: vec![], ..read(kind, item)?.row }
                    }
                    whole => whole?,
                });
            }
        }
        Ok(rows)
    }

    /// Keys of one page of an index.
    async fn query(
        &self,
        kind: Kind,
        part: Part<'_>,
        limit: i32,
        start: Option<Item>,
    ) -> Result<(Vec<String>, Option<Item>), PortError> {
        let table = self.tables.of(kind);
        let mut condition = "#hash = :hash".to_owned();
        let mut ask = self
            .client
            .query()
            .table_name(&table)
            .index_name(part.index)
            .expression_attribute_names("#hash", part.attribute)
            .expression_attribute_values(":hash", text(part.value));
        if let Some(key) = part.beginning {
            condition.push_str(" AND begins_with(#key, :key)");
            ask = ask
                .expression_attribute_names("#key", "key")
                .expression_attribute_values(":key", text(&key.text));
        }
        let answer = ask
            .key_condition_expression(condition)
            .scan_index_forward(!part.backwards)
            .limit(limit)
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|e| fault(&table, e))?;
        Ok((keys(answer.items()), answer.last_evaluated_key))
    }

    /// Keys of what is due: the index holds only what lives, so all of it is looked at.
    async fn due(
        &self,
        kind: Kind,
        now: chrono::DateTime<chrono::Utc>,
        limit: i32,
        mut start: Option<Item>,
    ) -> Result<(Vec<String>, Option<Item>), PortError> {
        let table = self.tables.of(kind);
        let wanted = usize::try_from(limit).unwrap_or(1);
        let mut found = vec![];
        loop {
            let left = wanted.saturating_sub(found.len());
            let answer = self
                .client
                .scan()
                .table_name(&table)
                .index_name("living")
                .filter_expression("#due <= :now")
                .expression_attribute_names("#due", "due")
                .expression_attribute_values(":now", number(now.timestamp_millis()))
                .limit(i32::try_from(left).unwrap_or(limit))
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|e| fault(&table, e))?;
            found.extend(keys(answer.items()));
            start = answer.last_evaluated_key;
            if start.is_none() || found.len() >= wanted {
                return Ok((found, start));
            }
        }
    }
}

/// Which items of an index are asked for.
struct Part<'a> {
    index: &'static str,
    /// What the index is of.
    attribute: &'static str,
    value: String,
    beginning: Option<&'a Key>,
    backwards: bool,
}

impl Part<'_> {
    /// All that have a value, in an index that has the attribute's name.
    fn of(attribute: &'static str, value: String) -> Self {
        Part { index: attribute, attribute, value, beginning: None, backwards: false }
    }
}

fn keys(items: &[Item]) -> Vec<String> {
    items.iter().filter_map(|i| i.get("key")?.as_s().ok().cloned()).collect()
}

/// Where a page ended, as text: the attributes of the last key that was looked at.
fn token(last: Option<Item>) -> Result<Option<String>, PortError> {
    let Some(last) = last else { return Ok(None) };
    let plain: BTreeMap<String, String> =
        last.into_iter().filter_map(|(k, v)| Some((k, v.as_s().ok()?.clone()))).collect();
    serde_json::to_string(&plain)
        .map(Some)
        .map_err(|e| PortError::broken_by("a page's end", "report this", e))
}

fn start(after: Option<&str>) -> Result<Option<Item>, PortError> {
    let Some(after) = after else { return Ok(None) };
    let plain: BTreeMap<String, String> = serde_json::from_str(after)
        .map_err(|e| PortError::broken_by("that is no end of a page", "ask for the first page again", e))?;
    Ok(Some(plain.into_iter().map(|(k, v)| (k, AttributeValue::S(v))).collect()))
}

#[async_trait]
impl Rows for DynamoRows {
    async fn get(&self, key: &Key) -> Result<Option<RowRead>, PortError> {
        let table = self.tables.of(key.kind);
        let answer = self
            .client
            .get_item()
            .table_name(&table)
            .key("key", text(&key.text))
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| fault(&table, e))?;
        match answer.item {
            None => Ok(None),
            Some(item) => self.whole(key.kind, &item).await.map(Some),
        }
    }

    async fn find(&self, kind: Kind, by: By<'_>, page: Page) -> Result<Listing, PortError> {
        let limit = i32::try_from(if page.limit == 0 { 100 } else { page.limit }).unwrap_or(i32::MAX);
        let start = start(page.after.as_deref())?;
        let (keys, last) = match by {
            By::Tenant(tenant) => {
                self.query(kind, Part::of("tenant", tenant.to_string()), limit, start).await?
            }
            By::Beginning(tenant, key) => {
                let part = Part { beginning: Some(key), ..Part::of("tenant", tenant.to_string()) };
                self.query(kind, part, limit, start).await?
            }
            By::Newest(tenant, environment, behind) => {
                let part = match environment {
                    None => Part { index: "newest", ..Part::of("tenant", tenant.to_string()) },
                    Some(_) => Part::of("owner", owner(tenant, environment)),
                };
                let start = start.or_else(|| match behind {
                    Behind::Nothing => None,
                    Behind::This(at, key) => Some(Item::from([
                        (part.attribute.to_owned(), text(&part.value)),
                        ("begun".to_owned(), text(begun(at, key))),
                        ("key".to_owned(), text(&key.text)),
                    ])),
                });
                self.query(kind, Part { backwards: true, ..part }, limit, start).await?
            }
            By::Living(tenant, environment) => {
                let part = Part::of("living", owner(tenant, Some(environment)));
                self.query(kind, part, limit, start).await?
            }
            By::Due(now) => self.due(kind, now, limit, start).await?,
            By::All => {
                let table = self.tables.of(kind);
                let answer = self
                    .client
                    .scan()
                    .table_name(&table)
                    .consistent_read(true)
                    .limit(limit)
                    .set_exclusive_start_key(start)
                    .send()
                    .await
                    .map_err(|e| fault(&table, e))?;
                let mut rows = vec![];
                for item in answer.items() {
                    rows.push(self.whole(kind, item).await?);
                }
                return Ok(Listing { rows, next: token(answer.last_evaluated_key)? });
            }
        };
        Ok(Listing { rows: self.batch(kind, keys).await?, next: token(last)? })
    }

    async fn write(&self, commit: &Commit) -> Result<Committed, CommitError> {
        dynamo_write::write(self, commit).await
    }

    async fn counter(&self, counter: &str) -> Result<Vec<CounterRead>, PortError> {
        let table = self.tables.counters();
        let answer = self
            .client
            .get_item()
            .table_name(&table)
            .key("counter", text(counter))
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| fault(&table, e))?;
        let item = answer.item.unwrap_or_default();
        let mut limits = vec![];
        for attribute in item.keys() {
            let Some(name) = attribute.strip_prefix("limit:") else { continue };
            let limit = amount(&item, attribute).unwrap_or_default();
            let free = amount(&item, &crate::dynamo_item::free(name)).unwrap_or_default();
            limits.push(CounterRead { name: name.to_owned(), free, limit });
        }
        limits.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(limits)
    }
}
