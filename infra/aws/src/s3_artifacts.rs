//! Artifacts in a bucket, named by their digest and checked against it.

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ChecksumAlgorithm;
use domain::Digest;
use ports::{Artifacts, PortError, Put};

use crate::fault::fault;
use crate::s3_receipts::{get, put_once};

/// The artifacts of a bucket, below a prefix.
#[derive(Clone)]
pub struct S3Artifacts {
    /// S3.
    pub client: Client,
    /// The bucket.
    pub bucket: String,
    /// For instance `artifacts/`.
    pub prefix: String,
}

impl S3Artifacts {
    /// Makes the connection, so that the first message doesn't.
    pub async fn warm(&self) -> Result<(), PortError> {
        get(&self.client, &self.bucket, &format!("{}warm", self.prefix)).await.map(|_| ())
    }

    fn key(&self, digest: &Digest) -> String {
        format!("{}{digest}", self.prefix)
    }

    fn changed(&self, digest: &Digest) -> PortError {
        PortError::broken(
            format!("artifact {digest} was changed in bucket {}", self.bucket),
            "restore the version that its name tells",
        )
    }
}

#[async_trait]
impl Artifacts for S3Artifacts {
    async fn put(&self, bytes: &[u8]) -> Result<Digest, PortError> {
        let digest = Digest::of(bytes);
        let key = self.key(&digest);
        if put_once(&self.client, &self.bucket, &key, bytes).await? == Put::Different {
            // The name tells what belongs there, and that is what was brought.
            tracing::warn!(artifact = %digest, bucket = self.bucket, "an artifact was changed; the right bytes are put in its place");
            let body = ByteStream::from(bytes.to_vec());
            let put = self.client.put_object().bucket(&self.bucket).key(key);
            let put = put.checksum_algorithm(ChecksumAlgorithm::Sha256).body(body);
            put.send().await.map_err(|e| fault(&self.bucket, e))?;
        }
        Ok(digest)
    }

    async fn get(&self, digest: &Digest) -> Result<Option<Vec<u8>>, PortError> {
        let found = get(&self.client, &self.bucket, &self.key(digest)).await?;
        if found.as_ref().is_some_and(|bytes| Digest::of(bytes) != *digest) {
            return Err(self.changed(digest));
        }
        Ok(found)
    }
}
