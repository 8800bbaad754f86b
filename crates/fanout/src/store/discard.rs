//! Stores nothing. For benchmarks, and for endpoints called only for their side effects.

use futures_util::future::BoxFuture;

use super::{Batch, Record, Store, StoreError, Stored, Written};

#[derive(Clone, Copy, Debug, Default)]
pub struct DiscardStore;

impl Store for DiscardStore {
    fn kind(&self) -> &'static str {
        "discard"
    }

    fn record<'a>(&'a self, _: &'a Record) -> BoxFuture<'a, Result<Option<u64>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(async { Ok(vec![Written::Stored; batch.answers.len()]) })
    }

    fn read<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
}
