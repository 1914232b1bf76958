//! Receipts in a bucket: written once, by `If-None-Match`; locked by the bucket's Object Lock.

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ChecksumAlgorithm;
use ports::receipts::check_key;
use ports::{PortError, Put, Receipts};

use crate::fault::fault;

/// The receipts of a bucket.
#[derive(Clone)]
pub struct S3Receipts {
    /// S3.
    pub client: Client,
    /// The bucket.
    pub bucket: String,
}

impl S3Receipts {
    /// Makes the connection, so that the first message doesn't: asks for what is not in a folder that may be read.
    pub async fn warm(&self, folder: &str) -> Result<(), PortError> {
        get(&self.client, &self.bucket, &format!("{folder}warm")).await.map(|_| ())
    }
}

/// How often an answer that broke off is asked for again.
const CUT_OFF: u32 = 4;
/// How often a write that met another one is tried again.
const MEETINGS: u32 = 8;

/// Reads an object; None where there is none.
pub(crate) async fn get(client: &Client, bucket: &str, key: &str) -> Result<Option<Vec<u8>>, PortError> {
    let mut cut = None;
    // The SDK repeats a call that failed, but not one whose answer broke off in the middle.
    for _ in 0..CUT_OFF {
        match client.get_object().bucket(bucket).key(key).send().await {
            Ok(answer) => match answer.body.collect().await {
                Ok(bytes) => return Ok(Some(bytes.to_vec())),
                Err(e) => cut = Some(e),
            },
            Err(e) if e.as_service_error().is_some_and(|e| e.is_no_such_key()) => return Ok(None),
            Err(e) => return Err(fault(bucket, e)),
        }
    }
    let why = cut.map_or_else(|| "its answer broke off".to_owned(), |e| e.to_string());
    Err(PortError::unavailable(bucket, why))
}

/// Writes an object if nothing is there.
pub(crate) async fn put_once(
    client: &Client,
    bucket: &str,
    key: &str,
    bytes: &[u8],
) -> Result<Put, PortError> {
    for attempt in 0..MEETINGS {
        let sent = client
            .put_object()
            .bucket(bucket)
            .key(key)
            .if_none_match("*")
            .checksum_algorithm(ChecksumAlgorithm::Sha256)
            .body(ByteStream::from(bytes.to_vec()))
            .send()
            .await;
        let error = match sent {
            Ok(_) => return Ok(Put::Created),
            Err(error) => error,
        };
        match error.as_service_error().and_then(|e| e.code()) {
            Some("PreconditionFailed") => {
                // Also what a second attempt finds after a first one whose answer was lost.
                return match get(client, bucket, key).await? {
                    Some(found) if found == bytes => Ok(Put::Same),
                    Some(_) => Ok(Put::Different),
                    None => Err(PortError::unavailable(bucket, format!("{key} was there and is gone"))),
                };
            }
            Some("ConditionalRequestConflict") => {
                tokio::time::sleep(std::time::Duration::from_millis(10 << attempt)).await;
            }
            Some(_) | None => return Err(fault(bucket, error)),
        }
    }
    Err(PortError::unavailable(bucket, format!("others write {key} at the same time")))
}

#[async_trait]
impl Receipts for S3Receipts {
    async fn put_once(&self, key: &str, bytes: &[u8]) -> Result<Put, PortError> {
        check_key(key)?;
        put_once(&self.client, &self.bucket, key, bytes).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        check_key(key)?;
        get(&self.client, &self.bucket, key).await
    }

    async fn list(&self, folder: &str) -> Result<Vec<String>, PortError> {
        check_key(folder)?;
        let mut keys = vec![];
        let mut next = None;
        loop {
            let answer = self
                .client
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(format!("{folder}/"))
                .set_continuation_token(next)
                .send()
                .await
                .map_err(|e| fault(&self.bucket, e))?;
            keys.extend(answer.contents().iter().filter_map(|o| o.key().map(str::to_owned)));
            next = answer.next_continuation_token;
            if next.is_none() {
                keys.sort();
                return Ok(keys);
            }
        }
    }
}
