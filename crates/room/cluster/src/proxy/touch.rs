//! Asks nodes for leases.
//!
//! The touches of one turn share a pipeline per node, with the node's run read behind
//! them: they count only if it is the one that was passed.

use nagaya_tiering::protocol::Touched;

use super::leases::TagState;
use super::model::Map;
use super::model::in_flight::Origin;
use super::model::reply::{bulk, info_field, run_digest};
use super::node_connection::State;
use super::slab::Key;
use super::worker::Worker;
use crate::hot_tier::run::RunDigest;
use crate::hot_tier::scripts::{self, Form};

/// Touches that share one reading of the run.
const BATCH_MAX: usize = 512;
/// How long to wait before a tag that somebody else loads, or that is moving, is touched again.
pub(super) const TOUCH_AGAIN_US: u64 = 10_000;

/// Touches on their way, in order, and what has come back.
pub(super) struct Batch {
    pub(super) node: usize,
    pub(super) epoch: u64,
    pub(super) run: RunDigest,
    pub(super) sent_us: u64,
    pub(super) tags: Vec<Key>,
    pub(super) answers: Vec<Option<Touched>>,
    pub(super) run_id: String,
}

impl Worker<'_> {
    /// Has a tag touched at the end of the turn, unless something is being done for it.
    pub(super) fn want_touch(&mut self, key: Key) {
        let Some(leases) = &mut self.leases else {
            return;
        };
        if let Some(tag) = leases.tags.get_mut(key)
            && tag.state == TagState::Nothing
        {
            tag.state = TagState::Touching;
            leases.wanted.push(key);
        }
    }

    /// Sends the touches that this turn asked for, one batch per node.
    pub(super) fn send_touches(&mut self) {
        let Some(leases) = &mut self.leases else {
            return;
        };
        let wanted = std::mem::take(&mut leases.wanted);
        if wanted.is_empty() {
            return;
        }
        let mut by_node: Map<usize, Vec<Key>> = Map::default();
        let mut unplaced = Vec::new();
        for key in wanted {
            let Some(tag) = leases.tags.get(key) else {
                continue;
            };
            match self.nodes.owner(tag.slot) {
                Some(node) => by_node.entry(node).or_default().push(key),
                None => unplaced.push(key),
            }
        }
        for key in unplaced {
            self.touch_later(key);
        }
        for (node, tags) in by_node {
            let connection = self.shared_connection(node, false);
            let ready = connection.filter(|key| {
                self.backends
                    .get(*key)
                    .is_some_and(|backend| backend.state == State::Ready)
            });
            match (ready, self.nodes.list[node].run.clone()) {
                (Some(connection), Some(run)) => {
                    for tags in tags.chunks(BATCH_MAX) {
                        self.send_batch(node, connection, &run, tags);
                    }
                }
                // The connection tells when it is ready; or it fails, and the tags are looked at again.
                _ => tags.into_iter().for_each(|key| self.touch_later(key)),
            }
        }
    }

    fn send_batch(&mut self, node: usize, connection: Key, run: &RunDigest, tags: &[Key]) {
        let Some(leases) = &mut self.leases else {
            return;
        };
        let mut requests: Vec<(u16, Vec<u8>)> = Vec::new();
        for key in tags {
            let Some(tag) = leases.tags.get(*key) else {
                continue;
            };
            let mut bytes = Vec::new();
            scripts::touch(run, &tag.name).encode(Form::Hash, &mut bytes);
            requests.push((tag.slot, bytes));
        }
        let batch = leases.batches.insert(Batch {
            node,
            epoch: self.nodes.list[node].epoch,
            run: run.clone(),
            sent_us: self.now_us,
            tags: tags.to_vec(),
            answers: Vec::new(),
            run_id: String::new(),
        });
        self.shared.metrics.touches.add(tags.len() as u64);
        for (slot, bytes) in requests {
            let delivery = self.delivery(Origin::Touch { batch }, false);
            self.send_on(connection, &bytes, self.in_flight(delivery, slot));
        }
        for (section, origin) in [
            (&b"server"[..], Origin::RunId { batch }),
            (b"replication", Origin::ReplicationId { batch }),
        ] {
            let mut bytes = Vec::new();
            nagaya_resp::encode_request(&[b"INFO", section], &mut bytes);
            let delivery = self.delivery(origin, false);
            self.send_on(connection, &bytes, self.in_flight(delivery, 0));
        }
    }

    /// Takes the answer to a touch; it counts when the run behind it has been read.
    pub(super) fn on_touched(&mut self, batch: Key, reply: &[u8]) {
        let Some(leases) = &mut self.leases else {
            return;
        };
        let mut is_missing = false;
        if let Some(batch) = leases.batches.get_mut(batch) {
            let answer = bulk(reply).and_then(scripts::touched);
            is_missing = reply.starts_with(b"-NOSCRIPT");
            if answer.is_none() {
                tracing::debug!(reply = %String::from_utf8_lossy(reply), "a touch failed");
            }
            batch.answers.push(answer);
        }
        if is_missing {
            // Somebody emptied the node's scripts: the connection brings them again.
            self.reload_scripts(batch);
        }
    }

    fn reload_scripts(&mut self, batch: Key) {
        let node = self
            .leases
            .as_ref()
            .and_then(|leases| Some(leases.batches.get(batch)?.node));
        let Some(connection) = node.and_then(|node| self.shared_connection(node, false)) else {
            return;
        };
        for script in scripts::all() {
            if matches!(script.name, "touch" | "register") {
                let mut bytes = Vec::new();
                nagaya_resp::encode_request(&[b"SCRIPT", b"LOAD", script.source.as_bytes()], &mut bytes);
                let delivery = self.delivery(Origin::Nobody, false);
                self.send_on(connection, &bytes, self.in_flight(delivery, 0));
            }
        }
    }

    pub(super) fn on_run_id(&mut self, batch: Key, reply: &[u8]) {
        if let Some(batch) = self
            .leases
            .as_mut()
            .and_then(|leases| leases.batches.get_mut(batch))
        {
            batch.run_id = info_field(reply, "run_id").unwrap_or_default();
        }
    }

    /// The last reply of a batch: its grants count if the node's run has not changed.
    pub(super) fn on_replication_id(&mut self, key: Key, reply: &[u8]) {
        let Some(batch) = self.leases.as_mut().and_then(|leases| leases.batches.remove(key)) else {
            return;
        };
        let replication_id = info_field(reply, "master_replid").unwrap_or_default();
        let is_primary = info_field(reply, "role").as_deref() == Some("master");
        let is_read = !batch.run_id.is_empty() && !replication_id.is_empty();
        let run = run_digest(&batch.run_id, replication_id);
        let node = &mut self.nodes.list[batch.node];
        let counts = run == batch.run && is_primary && node.epoch == batch.epoch;
        if is_read && run != batch.run && node.epoch == batch.epoch {
            tracing::info!(node = node.info.name, "a node lives anew, its leases are over");
            node.run = Some(run);
            node.epoch += 1;
        }
        if !is_primary {
            self.shared.refresher.ask();
        }
        for (tag, answer) in batch
            .tags
            .iter()
            .zip(batch.answers.iter().copied().chain(std::iter::repeat(None)))
        {
            match answer.filter(|_| counts) {
                Some(Touched::Granted) => self.grant(*tag, &batch),
                // Somebody who loads it may be dead: the one who is asked here waits, or takes over.
                Some(Touched::Cold | Touched::Suspect | Touched::Wait) => self.load(*tag),
                None => self.touch_later(*tag),
            }
        }
    }

    fn grant(&mut self, key: Key, batch: &Batch) {
        self.note_use(key);
        let Some(leases) = &mut self.leases else {
            return;
        };
        let lease_us = leases.lease_us - leases.margin_us;
        let renew_us = batch.sent_us + lease_us - leases.renew_ahead_us();
        let Some(tag) = leases.tags.get_mut(key) else {
            return;
        };
        tag.state = TagState::Nothing;
        tag.node = batch.node;
        tag.epoch = batch.epoch;
        tag.lease_end_us = batch.sent_us + lease_us;
        // Each grant is a new lease: registrations of the one before do not carry over.
        tag.registered.clear();
        tag.is_read = false;
        tag.is_written = false;
        let waiting = std::mem::take(&mut tag.waiting);
        leases.look_at(key, renew_us);
        self.shared.metrics.leases_granted.add(1);
        for pending in waiting {
            self.send_pending(pending);
        }
    }

    fn touch_later(&mut self, key: Key) {
        let now_us = self.now_us;
        let Some(leases) = &mut self.leases else {
            return;
        };
        if let Some(tag) = leases.tags.get_mut(key) {
            tag.state = TagState::Later;
            leases.look_at(key, now_us + TOUCH_AGAIN_US);
        }
    }
}
