//! What happens to a tag between its leases: loads, renewals, and being forgotten.

use std::sync::Arc;

use nagaya_tiering::access::Use;

use super::inbox::{Inbox, Item};
use super::leases::TagState;
use super::model::in_flight::{Origin, Pending};
use super::slab::Key;
use super::touch::TOUCH_AGAIN_US;
use super::worker::Worker;

impl Worker<'_> {
    /// Has a tag brought into memory; its commands wait.
    pub(super) fn load(&mut self, key: Key) {
        let Some(leases) = &mut self.leases else {
            return;
        };
        let Some(tag) = leases.tags.get_mut(key) else {
            return;
        };
        tag.lease_end_us = 0;
        if tag.waiting.is_empty() {
            // Nobody needs it now: a renewal found it gone.
            return self.forget(key);
        }
        tag.state = TagState::Loading;
        self.shared.metrics.loads.add(1);
        let name = tag.name.to_vec();
        let told = Told {
            inbox: self.inbox.clone(),
            tag: name.clone(),
            is_told: false,
        };
        let done = move |ending| told.tell(ending);
        if let Some(tiering) = &self.shared.config.tiering {
            tiering.loads.load(&name, Box::new(done));
        }
    }

    /// A load is over: touch again, or tell those who wait why not.
    pub(super) fn on_loaded(&mut self, name: &[u8], ending: Result<(), String>) {
        let Some(leases) = &mut self.leases else {
            return;
        };
        let Some(&key) = leases.by_name.get(name) else {
            return;
        };
        let Some(tag) = leases.tags.get_mut(key) else {
            return;
        };
        tag.state = TagState::Nothing;
        match ending {
            Ok(()) => self.want_touch(key),
            Err(reason) => {
                let reason = reason.replace(['\r', '\n'], " ");
                self.fail_waiting(key, &format!("TRYAGAIN the tag cannot be loaded now: {reason}"));
            }
        }
    }

    /// Tells everybody who waits for a tag that it cannot be had.
    fn fail_waiting(&mut self, key: Key, text: &str) {
        let waiting = match self.leases.as_mut().and_then(|leases| leases.tags.get_mut(key)) {
            Some(tag) => std::mem::take(&mut tag.waiting),
            None => return,
        };
        for pending in waiting {
            self.fail_pending(&pending, text);
        }
    }

    /// Looks at the tags whose time has come.
    pub(super) fn tick_leases(&mut self) {
        loop {
            let Some(leases) = &mut self.leases else {
                return;
            };
            let Some(&(due_us, key)) = leases.due.first() else {
                return;
            };
            if due_us > self.now_us {
                return;
            }
            leases.due.pop_first();
            self.look_at_tag(key);
        }
    }

    fn look_at_tag(&mut self, key: Key) {
        let retry_us = self.shared.config.retry_for.as_micros() as u64;
        let now_us = self.now_us;
        let Some(leases) = &mut self.leases else {
            return;
        };
        let Some(tag) = leases.tags.get_mut(key) else {
            return;
        };
        let is_hopeless = !tag.waiting.is_empty() && tag.waiting_since_us + retry_us < now_us;
        match tag.state {
            // Whatever is under way looks at the tag when it is over.
            TagState::Touching | TagState::Loading => {}
            TagState::Later if is_hopeless => {
                tag.state = TagState::Nothing;
                self.fail_waiting(key, "TRYAGAIN the tag's node does not grant it now");
            }
            TagState::Later => {
                tag.state = TagState::Nothing;
                self.want_touch(key);
            }
            TagState::Nothing => {
                let in_use = tag.is_read || tag.is_written;
                if in_use {
                    self.want_touch(key);
                } else if tag.lease_end_us <= now_us && tag.waiting.is_empty() {
                    self.forget(key);
                } else {
                    let lease_end_us = tag.lease_end_us.max(now_us + TOUCH_AGAIN_US);
                    leases.look_at(key, lease_end_us);
                }
            }
        }
    }

    /// Hands on that a tag was used since the last time.
    pub(super) fn note_use(&mut self, key: Key) {
        let (Some(leases), Some(tiering)) = (&self.leases, &self.shared.config.tiering) else {
            return;
        };
        if let Some(tag) = leases.tags.get(key) {
            if tag.is_read {
                tiering.accesses.note(&tag.name, Use::Read);
            }
            if tag.is_written {
                tiering.accesses.note(&tag.name, Use::Write);
            }
        }
    }

    fn forget(&mut self, key: Key) {
        self.note_use(key);
        if let Some(leases) = &mut self.leases
            && let Some(tag) = leases.tags.remove(key)
        {
            leases.by_name.remove(&tag.name);
            leases.due.remove(&(tag.due_us, key));
            leases.unregistered.remove(&key);
        }
    }

    /// A connection can be used: what waits for it can be touched.
    pub(super) fn backend_ready(&mut self, key: Key) {
        self.mark_backend(key);
        let Some(leases) = &mut self.leases else {
            return;
        };
        let later: Vec<Key> = leases
            .due
            .iter()
            .map(|(_, key)| *key)
            .filter(|key| {
                leases
                    .tags
                    .get(*key)
                    .is_some_and(|tag| tag.state == TagState::Later)
            })
            .collect();
        for key in later {
            if let Some(tag) = self.leases.as_mut().and_then(|leases| leases.tags.get_mut(key)) {
                tag.state = TagState::Nothing;
            }
            self.want_touch(key);
        }
    }

    /// Tells whoever waits with something that it cannot be sent.
    pub(super) fn fail_pending(&mut self, pending: &Pending, text: &str) {
        match pending {
            Pending::Request(queued) => self.fail(queued.delivery.origin, text),
            Pending::Transaction(transaction) => self.fail_transaction(*transaction, text),
            Pending::Blocked(client) => self.fail(Origin::Blocked { client: *client }, text),
            Pending::Watch(client) => self.fail(Origin::Watched { client: *client }, text),
        }
    }
}

/// Tells a worker of the end of a load, also when the loader forgets to.
struct Told {
    inbox: Arc<Inbox>,
    tag: Vec<u8>,
    is_told: bool,
}

impl Told {
    fn tell(mut self, ending: Result<(), String>) {
        self.is_told = true;
        let tag = std::mem::take(&mut self.tag);
        self.inbox.push(Item::Loaded { tag, ending });
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if !self.is_told {
            let tag = std::mem::take(&mut self.tag);
            let ending = Err("the load was given up".to_owned());
            self.inbox.push(Item::Loaded { tag, ending });
        }
    }
}
