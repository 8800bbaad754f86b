//! Telling effects while commands run.

use nagaya_resp::Args;
use nagaya_store::rdb;

use crate::db::Db;
use crate::effects::encoding::{AT, EffectBuf};
use crate::hash_tag::hash_tag;

/// The effects of the commands that run on a [`Db`].
#[derive(Default)]
pub struct Effects {
    on: bool,
    /// The command at hand has said itself what it did.
    told: bool,
    /// As much of the database's count of changes as is told.
    seen: u64,
    buf: EffectBuf,
}

impl Effects {
    /// Starts a record in a buffer that was used before.
    pub fn recording(buf: EffectBuf) -> Effects {
        Effects {
            on: true,
            buf,
            ..Effects::default()
        }
    }

    /// Returns the record.
    pub fn into_record(self) -> EffectBuf {
        self.buf
    }
}

impl Db<'_> {
    /// Tells whether effects are wanted. Handlers ask before they put one together.
    #[inline]
    pub fn tells_effects(&self) -> bool {
        self.effects.on
    }

    /// Says what the command did, in place of the command itself. Several effects add up.
    pub fn effect(&mut self, args: &[&[u8]]) {
        self.effect_iter(args.len(), args.iter().copied());
    }

    /// Like [`Db::effect`], with `count` arguments from anywhere.
    pub fn effect_iter<'a>(&mut self, count: usize, args: impl Iterator<Item = &'a [u8]>) {
        if self.effects.on {
            self.effects.told = true;
            self.effects.buf.push_iter(count, args);
        }
    }

    /// Says what the command did at the time it ran, where that matters.
    pub fn effect_now<'a>(&mut self, count: usize, args: impl Iterator<Item = &'a [u8]>) {
        if self.effects.on {
            let (now_ms, mut text) = (self.now_ms(), itoa::Buffer::new());
            let when = [AT, text.format(now_ms).as_bytes()];
            self.effect_iter(
                count + when.len(),
                when.into_iter().chain(args.map(|arg| arg as &[u8])),
            );
        }
    }

    /// Says that a key is now as it is: its whole value and its expiry, or that it is gone.
    pub fn effect_state(&mut self, key: &[u8]) {
        if !self.effects.on {
            return;
        }
        let state = self.peek(key).map(|entry| {
            let at_ms = entry.expiry().unwrap_or(0);
            (rdb::dump_value(entry.value()), at_ms)
        });
        match state {
            None => self.effect(&[b"DEL", key]),
            Some((payload, at_ms)) => {
                let mut text = itoa::Buffer::new();
                let at_ms = text.format(at_ms).as_bytes();
                self.effect(&[b"RESTORE", key, at_ms, &payload, b"REPLACE", b"ABSTTL"]);
            }
        }
    }

    /// Says that a key is gone for a reason of its own, beside what the command did.
    pub fn record_removal(&mut self, key: &[u8]) {
        if self.effects.on {
            self.effects.buf.push(&[b"DEL", key]);
        }
    }

    /// Leaves a change that was counted out of what the command is taken to have done.
    pub fn forget_change(&mut self) {
        self.effects.seen += 1;
    }

    /// Ends a command: its request is the effect when it changed something and has not said what.
    ///
    /// Commands inside a transaction or script come through here before the one around them, which is
    /// left with nothing to tell.
    #[inline]
    pub fn end_effects(&mut self, args: &Args<'_>) {
        if !self.effects.on {
            return;
        }
        if self.dirty > self.effects.seen && !self.effects.told {
            self.effects.buf.push_iter(args.len(), args.iter());
        }
        self.effects.seen = self.dirty;
        self.effects.told = false;
    }
}

/// Tells whether two keys have the same hash tag, so that one effect may touch both.
pub fn same_tag(a: &[u8], b: &[u8]) -> bool {
    hash_tag(a) == hash_tag(b)
}
