//! Flags of a job that its row carries, so that its options need not be read.

/// The job holds a unique key.
pub(crate) const UNIQUE: i16 = 1;
/// The job has a concurrency key.
pub(crate) const CONCURRENCY: i16 = 2;
/// The job has its own webhook.
pub(crate) const WEBHOOK: i16 = 4;
/// The job has its own retention.
pub(crate) const RETENTION: i16 = 8;
/// The job ends in a transaction of several statements.
pub(crate) const SPECIAL: i16 = UNIQUE | CONCURRENCY | WEBHOOK | RETENTION;
