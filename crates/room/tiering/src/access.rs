//! Uses of tags, merged until they are written to the cold tier.
//!
//! They serve operators, statistics and the choice of what to evict. Losing some
//! is harmless, so the log is bounded and says how many it dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cold::Access;

/// How a tag was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    Read,
    Write,
}

/// The latest uses of each tag since the last drain.
#[derive(Debug)]
pub struct AccessLog {
    tags_max: usize,
    latest: Mutex<HashMap<Vec<u8>, Latest>>,
    dropped: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    read_at_ms: Option<i64>,
    written_at_ms: Option<i64>,
}

impl AccessLog {
    /// Returns a log of at most `tags_max` tags; uses of further ones are dropped until it is drained.
    pub fn new(tags_max: usize) -> AccessLog {
        AccessLog {
            tags_max,
            latest: Mutex::default(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Records a use at a Unix time in milliseconds.
    pub fn note(&self, tag: &[u8], used: Use, at_ms: i64) {
        let (read_at_ms, written_at_ms) = match used {
            Use::Read => (Some(at_ms), None),
            Use::Write => (None, Some(at_ms)),
        };
        self.merge(
            &mut self.latest(),
            tag,
            Latest {
                read_at_ms,
                written_at_ms,
            },
        );
    }

    /// Takes everything out.
    pub fn drain(&self) -> Vec<Access> {
        let latest = std::mem::take(&mut *self.latest());
        let access = |(
            tag,
            Latest {
                read_at_ms,
                written_at_ms,
            },
        )| Access {
            tag,
            read_at_ms,
            written_at_ms,
        };
        latest.into_iter().map(access).collect()
    }

    /// Puts back what could not be written; later uses win.
    pub fn put_back(&self, accesses: Vec<Access>) {
        let mut latest = self.latest();
        for Access {
            tag,
            read_at_ms,
            written_at_ms,
        } in accesses
        {
            self.merge(
                &mut latest,
                &tag,
                Latest {
                    read_at_ms,
                    written_at_ms,
                },
            );
        }
    }

    /// Returns how many tags it holds.
    pub fn len(&self) -> usize {
        self.latest().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many uses were dropped because the log was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn merge(&self, latest: &mut HashMap<Vec<u8>, Latest>, tag: &[u8], new: Latest) {
        if let Some(known) = latest.get_mut(tag) {
            // `None` orders before every time.
            known.read_at_ms = known.read_at_ms.max(new.read_at_ms);
            known.written_at_ms = known.written_at_ms.max(new.written_at_ms);
        } else if latest.len() < self.tags_max {
            latest.insert(tag.to_vec(), new);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn latest(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(tag: &[u8], read_at_ms: Option<i64>, written_at_ms: Option<i64>) -> Access {
        Access {
            tag: tag.to_vec(),
            read_at_ms,
            written_at_ms,
        }
    }

    #[test]
    fn uses_of_one_tag_become_one_entry_with_the_latest_times() {
        let log = AccessLog::new(10);
        log.note(b"a", Use::Read, 5);
        log.note(b"a", Use::Write, 7);
        log.note(b"a", Use::Read, 3);
        assert_eq!(log.drain(), [access(b"a", Some(5), Some(7))]);
        assert_eq!(log.drain(), []);
    }

    #[test]
    fn a_full_log_drops_new_tags_and_keeps_known_ones_fresh() {
        let log = AccessLog::new(1);
        log.note(b"a", Use::Read, 5);
        log.note(b"b", Use::Read, 6);
        log.note(b"a", Use::Read, 7);
        assert_eq!(log.dropped(), 1);
        assert_eq!(log.drain(), [access(b"a", Some(7), None)]);
    }

    #[test]
    fn what_is_put_back_does_not_hide_later_uses() {
        let log = AccessLog::new(10);
        log.note(b"a", Use::Write, 5);
        let failed = log.drain();
        log.note(b"a", Use::Write, 9);
        log.put_back(failed);
        assert_eq!(log.drain(), [access(b"a", None, Some(9))]);
    }
}
