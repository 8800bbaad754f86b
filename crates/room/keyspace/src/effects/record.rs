//! Records effects while commands run.

use nagaya_resp::Args;
use nagaya_store::rdb;

use crate::db::Db;
use crate::effects::encoding::{AT, EffectBuf, SELECT};
use crate::hash_tag::hash_tag;

/// The effects of the commands that run on a [`Db`].
#[derive(Default)]
pub struct Effects {
    on: bool,
    /// The current command has reported its effect itself.
    told: bool,
    /// How many of the database's changes are covered by effects.
    seen: u64,
    /// The space that the latest effect is about; 0 before the first.
    space: usize,
    buf: EffectBuf,
}

impl Effects {
    /// Starts a record in a buffer that was used before.
    #[inline]
    pub fn recording(buf: EffectBuf) -> Effects {
        Effects {
            on: true,
            buf,
            ..Effects::default()
        }
    }

    /// Adds an effect on a space.
    #[inline]
    fn push<'a>(&mut self, space: usize, count: usize, args: impl Iterator<Item = &'a [u8]>) {
        if space != self.space {
            self.enter(space);
        }
        self.buf.push_iter(count, args);
    }

    #[cold]
    fn enter(&mut self, space: usize) {
        self.space = space;
        self.buf
            .push(&[SELECT, itoa::Buffer::new().format(space).as_bytes()]);
    }

    /// Returns the record.
    #[inline]
    pub fn into_record(self) -> EffectBuf {
        self.buf
    }
}

impl Db<'_> {
    /// Returns whether effects are recorded. Handlers ask before they build one.
    #[inline]
    pub fn tells_effects(&self) -> bool {
        self.effects.on
    }

    /// Records what the command did, in place of the command itself. Several effects add up.
    #[inline]
    pub fn effect(&mut self, args: &[&[u8]]) {
        self.effect_iter(args.len(), args.iter().copied());
    }

    /// Like [`Db::effect`], with `count` arguments from anywhere.
    #[inline]
    pub fn effect_iter<'a>(&mut self, count: usize, args: impl Iterator<Item = &'a [u8]>) {
        if self.effects.on {
            self.effects.told = true;
            let space = self.space();
            self.effects.push(space, count, args);
        }
    }

    /// Records what the command did with the time it ran, where that matters.
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

    /// Records the state of a key: its whole value and its expiry, or that it is gone.
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

    /// Records that a key was removed for another reason than the command, such as expiry.
    #[inline]
    pub fn record_removal(&mut self, key: &[u8]) {
        if self.effects.on {
            let space = self.space();
            self.effects.push(space, 2, [&b"DEL"[..], key].into_iter());
        }
    }

    /// Records that fields of a hash have expired.
    pub(crate) fn record_fields_removal(&mut self, key: &[u8], fields: &[Vec<u8>]) {
        if self.effects.on {
            let words = [&b"HDEL"[..], key].into_iter();
            let words = words.chain(fields.iter().map(Vec::as_slice));
            let space = self.space();
            self.effects.push(space, fields.len() + 2, words);
        }
    }

    /// Leaves a change that was counted out of what the command is taken to have done.
    #[inline]
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
            let space = self.space();
            self.effects.push(space, args.len(), args.iter());
        }
        self.effects.seen = self.dirty;
        self.effects.told = false;
    }
}

/// Returns whether two keys have the same hash tag, so that one effect may touch both.
pub fn same_tag(a: &[u8], b: &[u8]) -> bool {
    hash_tag(a) == hash_tag(b)
}
