//! Letters, out of the tables' streams.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;
use domain::Kind;
use ports::commit::Letter;
use ports::{Letters, PortError};
use runtime_cloud_aws::{StreamRecord, Tables, letters_of};
use uuid::Uuid;

/// Letters as they stand in the tables' streams; what has left is remembered here, as a stream's reader does by its
/// place in the stream.
pub struct StreamLetters {
    pub tables: Tables,
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub streams: aws_sdk_dynamodbstreams::Client,
    pub gone: Mutex<BTreeSet<Uuid>>,
}

impl StreamLetters {
    /// Records of a table's stream since its beginning, with their times.
    async fn records(&self, table: String) -> Vec<(i64, String, StreamRecord)> {
        let described = self.dynamodb.describe_table().table_name(table).send().await.expect("a table");
        let arn = described.table.and_then(|t| t.latest_stream_arn).expect("a stream");
        let stream = self.streams.describe_stream().stream_arn(&arn).send().await.expect("a stream");
        let mut records = vec![];
        for shard in stream.stream_description.expect("a description").shards.unwrap_or_default() {
            let begin = aws_sdk_dynamodbstreams::types::ShardIteratorType::TrimHorizon;
            let asked = self.streams.get_shard_iterator().stream_arn(&arn).shard_iterator_type(begin);
            let asked = asked.shard_id(shard.shard_id.expect("a shard")).send().await.expect("an iterator");
            let mut next = asked.shard_iterator;
            while let Some(iterator) = next.take() {
                let page = self.streams.get_records().shard_iterator(iterator).send().await.expect("records");
                let some = page.records.unwrap_or_default();
                if !some.is_empty() {
                    next = page.next_shard_iterator;
                }
                for record in some {
                    let Some(data) = record.dynamodb else { continue };
                    let text = |image: &Option<_>, name: &str| -> Option<String> {
                        let image: &std::collections::HashMap<
                            String,
                            aws_sdk_dynamodbstreams::types::AttributeValue,
                        > = image.as_ref()?;
                        image.get(name)?.as_s().ok().cloned()
                    };
                    let told = StreamRecord {
                        commit: text(&data.new_image, "commit"),
                        commit_before: text(&data.old_image, "commit"),
                        letters: text(&data.new_image, "letters"),
                    };
                    let at = data.approximate_creation_date_time.map_or(0, |t| t.as_nanos());
                    records.push((
                        i64::try_from(at).unwrap(),
                        data.sequence_number.unwrap_or_default(),
                        told,
                    ));
                }
            }
        }
        records
    }
}

#[async_trait]
impl Letters for StreamLetters {
    async fn pending(&self, limit: u32) -> Result<Vec<Letter>, PortError> {
        let mut records = BTreeMap::new();
        for kind in [Kind::DeploymentSpecification, Kind::ProvisioningRun, Kind::EnvironmentSlot] {
            for (at, sequence, record) in self.records(self.tables.of(kind)).await {
                records.insert((at, sequence, kind), record);
            }
        }
        let mut letters = vec![];
        for record in records.values() {
            letters.extend(letters_of(record)?);
        }
        let gone = self.gone.lock().unwrap();
        letters.retain(|l| !gone.contains(&l.id));
        letters.truncate(usize::try_from(limit).unwrap());
        Ok(letters)
    }
    async fn sent(&self, ids: &[Uuid]) -> Result<(), PortError> {
        self.gone.lock().unwrap().extend(ids);
        Ok(())
    }
    async fn park(&self, id: Uuid, _: &str) -> Result<(), PortError> {
        self.gone.lock().unwrap().insert(id);
        Ok(())
    }
    async fn wait(&self) {}
}
