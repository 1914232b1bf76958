//! Receipts that fail.

use std::sync::Arc;

use async_trait::async_trait;
use ports::{PortError, Put, Receipts};

use super::schedule::{Faults, under};

/// Receipts that fail when they are written.
pub struct FaultyReceipts {
    receipts: Arc<dyn Receipts>,
    faults: Arc<Faults>,
}

impl FaultyReceipts {
    /// Over receipts.
    pub fn new(receipts: Arc<dyn Receipts>, faults: impl Into<Arc<Faults>>) -> FaultyReceipts {
        FaultyReceipts { receipts, faults: faults.into() }
    }
}

#[async_trait]
impl Receipts for FaultyReceipts {
    async fn put_once(&self, key: &str, bytes: &[u8]) -> Result<Put, PortError> {
        under!(self.faults, self.receipts.put_once(key, bytes))
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        self.faults.alive()?;
        self.receipts.get(key).await
    }

    async fn list(&self, folder: &str) -> Result<Vec<String>, PortError> {
        self.faults.alive()?;
        self.receipts.list(folder).await
    }
}
