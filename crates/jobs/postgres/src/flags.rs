//! What a job's row must tell without a look into its options.

/// It holds a unique key.
pub(crate) const UNIQUE: i16 = 1;
/// It needs a place under a concurrency key.
pub(crate) const CONCURRENCY: i16 = 2;
/// It names a webhook.
pub(crate) const WEBHOOK: i16 = 4;
/// It is kept for a time of its own.
pub(crate) const RETENTION: i16 = 8;
/// It is ended in a transaction of several statements.
pub(crate) const SPECIAL: i16 = UNIQUE | CONCURRENCY | WEBHOOK | RETENTION;
