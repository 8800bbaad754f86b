//! Gives keys an expiry, with its event and its effect.

use crate::db::Db;
use crate::notify::Events;

impl Db<'_> {
    /// Lets a key that exists expire at a moment; one that is past removes it at once.
    pub fn expire_at(&mut self, key: &[u8], at_ms: i64) {
        if at_ms <= self.now_ms() {
            self.remove(key);
            self.notify(Events::GENERIC, "del", key);
            self.effect(&[b"DEL", key]);
        } else {
            self.set_expiry(key, Some(at_ms));
            self.notify(Events::GENERIC, "expire", key);
            let mut text = itoa::Buffer::new();
            self.effect(&[b"PEXPIREAT", key, text.format(at_ms).as_bytes()]);
        }
        self.modified(key);
    }
}
