//! What happens to a tag between its leases: loads, renewals, and its removal.

use std::sync::Arc;

use nagaya_reactor::Key;
use nagaya_tiering::access::Use;

use super::Leases;
use super::state::TagState;
use super::touch::TOUCH_AGAIN_US;
use crate::proxy::env::Env;
use crate::proxy::inbox::{Inbox, Item};

impl Leases {
    /// Has a tag loaded into memory; its commands wait.
    pub(super) fn load(&mut self, env: &Env<'_>, key: Key) {
        let Some(tag) = self.tags.get_mut(key) else {
            return;
        };
        tag.lease_end_us = 0;
        if tag.waiting.is_empty() {
            // No command needs it now: a renewal found it evicted.
            return self.forget(env, key);
        }
        tag.state = TagState::Loading;
        let give_up_us = tag.waiting_since_us + self.load_wait_us;
        env.shared.metrics.loads.add(1);
        let callback = LoadCallback {
            inbox: env.inbox.clone(),
            tag: tag.name.to_vec(),
            is_called: false,
        };
        let done = move |ending| callback.call(ending);
        if let Some(tiering) = &env.shared.config.tiering {
            tiering.loads.load(&tag.name, Box::new(done));
        }
        self.look_at(key, give_up_us);
    }

    /// Processes the end of a load: the tag is touched again, or its commands fail.
    pub(crate) fn on_loaded(&mut self, name: &[u8], ending: Result<(), String>) {
        let Some(&key) = self.by_name.get(name) else {
            return;
        };
        let Some(tag) = self.tags.get_mut(key) else {
            return;
        };
        tag.state = TagState::Idle;
        match ending {
            Ok(()) => {
                self.has_loaded = true;
                self.want_touch(key);
            }
            Err(reason) => {
                let reason = reason.replace(['\r', '\n'], " ");
                self.fail_waiting(key, &format!("TRYAGAIN the tag cannot be loaded now: {reason}"));
            }
        }
    }

    /// Fails all commands that wait for a tag.
    fn fail_waiting(&mut self, key: Key, text: &str) {
        if let Some(tag) = self.tags.get_mut(key) {
            let waiting = std::mem::take(&mut tag.waiting).into_iter();
            self.failed
                .extend(waiting.map(|pending| (pending, text.to_owned())));
        }
    }

    /// Looks at the tags whose time has come.
    pub(crate) fn tick(&mut self, env: &Env<'_>) {
        if std::mem::take(&mut self.has_loaded) {
            self.loaded_us = env.now_us;
        }
        while let Some(&(due_us, key)) = self.due.first()
            && due_us <= env.now_us
        {
            self.due.pop_first();
            self.look_at_tag(env, key);
        }
    }

    fn look_at_tag(&mut self, env: &Env<'_>, key: Key) {
        let retry_us = env.shared.config.retry_for.as_micros() as u64;
        let Some(tag) = self.tags.get_mut(key) else {
            return;
        };
        let is_hopeless = !tag.waiting.is_empty() && tag.waiting_since_us + retry_us < env.now_us;
        match tag.state {
            // The end of what is under way leads back to the tag.
            TagState::Touching => {}
            TagState::Loading if tag.waiting.is_empty() => {}
            TagState::Loading => {
                // While other tags are loaded, the cold tier is there and this one's turn comes.
                let give_up_us = tag.waiting_since_us.max(self.loaded_us) + self.load_wait_us;
                if give_up_us > env.now_us {
                    return self.look_at(key, give_up_us);
                }
                let waited_ms = self.load_wait_us / 1000;
                let text = format!(
                    "TRYAGAIN the tag is not in memory, and no tag was loaded for {waited_ms} ms: the cold tier may be away"
                );
                self.fail_waiting(key, &text);
            }
            TagState::TouchLater if is_hopeless => {
                tag.state = TagState::Idle;
                self.fail_waiting(key, "TRYAGAIN the tag's node does not grant it now");
            }
            TagState::TouchLater => {
                tag.state = TagState::Idle;
                self.want_touch(key);
            }
            TagState::Idle => {
                let in_use = tag.is_read || tag.is_written;
                if in_use {
                    self.want_touch(key);
                } else if tag.lease_end_us <= env.now_us && tag.waiting.is_empty() {
                    self.forget(env, key);
                } else {
                    let lease_end_us = tag.lease_end_us.max(env.now_us + TOUCH_AGAIN_US);
                    self.look_at(key, lease_end_us);
                }
            }
        }
    }

    /// Reports that a tag was used since the last report.
    pub(super) fn note_use(&self, env: &Env<'_>, key: Key) {
        let (Some(tag), Some(tiering)) = (self.tags.get(key), &env.shared.config.tiering) else {
            return;
        };
        if tag.is_read {
            tiering.accesses.note(&tag.name, Use::Read);
        }
        if tag.is_written {
            tiering.accesses.note(&tag.name, Use::Write);
        }
    }

    fn forget(&mut self, env: &Env<'_>, key: Key) {
        self.note_use(env, key);
        if let Some(tag) = self.tags.remove(key) {
            self.by_name.remove(&tag.name);
            self.due.remove(&(tag.due_us, key));
            self.unregistered.remove(&key);
        }
    }

    /// Touches the tags that wait for a connection, because one can be used now.
    pub(crate) fn on_ready(&mut self) {
        let is_later = |key: &Key| {
            let tag = self.tags.get(*key);
            tag.is_some_and(|tag| tag.state == TagState::TouchLater)
        };
        let later: Vec<Key> = self.due.iter().map(|(_, key)| *key).filter(is_later).collect();
        for key in later {
            if let Some(tag) = self.tags.get_mut(key) {
                tag.state = TagState::Idle;
            }
            self.want_touch(key);
        }
    }
}

/// Reports the end of a load to a worker, also when the loader drops it.
struct LoadCallback {
    inbox: Arc<Inbox>,
    tag: Vec<u8>,
    is_called: bool,
}

impl LoadCallback {
    fn call(mut self, ending: Result<(), String>) {
        self.is_called = true;
        let tag = std::mem::take(&mut self.tag);
        self.inbox.push(Item::Loaded { tag, ending });
    }
}

impl Drop for LoadCallback {
    fn drop(&mut self) {
        if !self.is_called {
            let tag = std::mem::take(&mut self.tag);
            let ending = Err("the load was given up".to_owned());
            self.inbox.push(Item::Loaded { tag, ending });
        }
    }
}
