//! Shards and their locks, expiry, effects, residency of tags.
