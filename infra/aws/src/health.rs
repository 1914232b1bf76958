//! What a doctor asks of an account: whether tables answer, whether buckets keep what they must.

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::{BucketVersioningStatus, ObjectLockEnabled};
use ports::PortError;

use crate::fault::fault;

/// Reads a table by its key; what is there doesn't matter.
pub async fn answers(client: &aws_sdk_dynamodb::Client, table: &str, key: &str) -> Result<(), PortError> {
    let name = AttributeValue::S("doctor".to_owned());
    let asked = client.get_item().table_name(table).key(key, name).consistent_read(true).send().await;
    asked.map(drop).map_err(|e| fault(table, e))
}

/// Whether a bucket keeps the versions of its objects.
pub async fn is_versioned(client: &aws_sdk_s3::Client, bucket: &str) -> Result<bool, PortError> {
    let found = client.get_bucket_versioning().bucket(bucket).send().await.map_err(|e| fault(bucket, e))?;
    Ok(found.status == Some(BucketVersioningStatus::Enabled))
}

/// Whether a bucket locks each of its new objects for a time.
pub async fn is_locked(client: &aws_sdk_s3::Client, bucket: &str) -> Result<bool, PortError> {
    match client.get_object_lock_configuration().bucket(bucket).send().await {
        Ok(found) => {
            let found = found.object_lock_configuration;
            let enabled = |l: &aws_sdk_s3::types::ObjectLockConfiguration| {
                l.object_lock_enabled == Some(ObjectLockEnabled::Enabled)
            };
            Ok(found.filter(enabled).and_then(|l| l.rule?.default_retention).is_some())
        }
        Err(e) if e.code() == Some("ObjectLockConfigurationNotFoundError") => Ok(false),
        Err(e) => Err(fault(bucket, e)),
    }
}
