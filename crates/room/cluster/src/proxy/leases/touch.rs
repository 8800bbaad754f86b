//! Asks nodes for leases.
//!
//! The touches of one turn share a pipeline per node, with the node's run read behind
//! them: they count only if it is the one that was passed.

use nagaya_reactor::Key;
use nagaya_tiering::protocol::Touched;

use super::Leases;
use super::state::TagState;
use crate::hot_tier::run::RunDigest;
use crate::hot_tier::scripts::{self, Form};
use crate::proxy::env::Env;
use crate::proxy::model::Map;
use crate::proxy::model::in_flight::{Lane, Origin};
use crate::proxy::model::reply::{bulk, encoded, info_field, run_digest};
use crate::proxy::upstream::Upstream;

/// Touches that share one reading of the run: its cost is small against theirs.
const BATCH_MAX: usize = 512;
/// How long to wait before a tag is touched again that is being loaded elsewhere, or whose slot is moving.
pub(super) const TOUCH_AGAIN_US: u64 = 10_000;

/// Touches under way, in order, and the replies so far.
pub(super) struct Batch {
    node: usize,
    epoch: u64,
    run: RunDigest,
    sent_us: u64,
    tags: Vec<Key>,
    answers: Vec<Option<Touched>>,
    run_id: String,
}

impl Leases {
    /// Has a tag touched at the end of the turn, unless something is being done for it.
    pub(super) fn want_touch(&mut self, key: Key) {
        if let Some(tag) = self.tags.get_mut(key)
            && tag.state == TagState::Idle
        {
            tag.state = TagState::Touching;
            self.wanted.push(key);
        }
    }

    /// Sends the touches that this turn asked for, in batches per node.
    pub(crate) fn send_touches(&mut self, upstream: &mut Upstream, env: &Env<'_>) {
        let wanted = std::mem::take(&mut self.wanted);
        if wanted.is_empty() {
            return;
        }
        let mut by_node: Map<usize, Vec<Key>> = Map::default();
        for key in wanted {
            let Some(tag) = self.tags.get(key) else {
                continue;
            };
            match upstream.nodes.owner(tag.slot) {
                Some(node) => by_node.entry(node).or_default().push(key),
                None => self.touch_later(env, key),
            }
        }
        for (node, tags) in by_node {
            let connection = upstream.ready_connection(env, node);
            match (connection, upstream.nodes.list[node].run.clone()) {
                (Some(connection), Some(run)) => {
                    for tags in tags.chunks(BATCH_MAX) {
                        self.send_batch(upstream, env, connection, &run, (node, tags));
                    }
                }
                // The tags are touched again once the connection is ready, or after a pause.
                _ => tags.into_iter().for_each(|key| self.touch_later(env, key)),
            }
        }
    }

    fn send_batch(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        connection: Key,
        run: &RunDigest,
        (node, tags): (usize, &[Key]),
    ) {
        let batch = self.batches.insert(Batch {
            node,
            epoch: upstream.nodes.list[node].epoch,
            run: run.clone(),
            sent_us: env.now_us,
            tags: tags.to_vec(),
            answers: Vec::new(),
            run_id: String::new(),
        });
        env.shared.metrics.touches.add(tags.len() as u64);
        for tag in tags.iter().filter_map(|key| self.tags.get(*key)) {
            let mut bytes = Vec::new();
            scripts::touch(run, &tag.name).encode(Form::Hash, &mut bytes);
            let delivery = env.delivery(Origin::Touch { batch }, false);
            upstream.send(env, connection, &bytes, env.in_flight(delivery, Some(tag.slot)));
        }
        for (section, origin) in [
            (&b"server"[..], Origin::RunId { batch }),
            (b"replication", Origin::ReplicationId { batch }),
        ] {
            let delivery = env.delivery(origin, false);
            let bytes = encoded(&[b"INFO", section]);
            upstream.send(env, connection, &bytes, env.in_flight(delivery, None));
        }
    }

    /// Processes the reply to a touch. It counts once the run behind it has been read.
    pub(crate) fn on_touched(&mut self, upstream: &mut Upstream, env: &Env<'_>, batch: Key, reply: &[u8]) {
        let Some(batch) = self.batches.get_mut(batch) else {
            return;
        };
        let answer = bulk(reply).and_then(scripts::touched);
        if answer.is_none() {
            tracing::debug!(reply = %String::from_utf8_lossy(reply), "a touch failed");
        }
        batch.answers.push(answer);
        if reply.starts_with(b"-NOSCRIPT") {
            // The node's scripts were flushed.
            reload_scripts(upstream, env, batch.node);
        }
    }

    /// Processes the first half of the node's run.
    pub(crate) fn on_run_id(&mut self, batch: Key, reply: &[u8]) {
        if let Some(batch) = self.batches.get_mut(batch) {
            batch.run_id = info_field(reply, "run_id").unwrap_or_default();
        }
    }

    /// Processes the last reply of a batch: its grants count if the node's run has not changed.
    pub(crate) fn on_replication_id(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        key: Key,
        reply: &[u8],
    ) {
        let Some(batch) = self.batches.remove(key) else {
            return;
        };
        let replication_id = info_field(reply, "master_replid").unwrap_or_default();
        let is_primary = info_field(reply, "role").as_deref() == Some("master");
        let is_read = !batch.run_id.is_empty() && !replication_id.is_empty();
        let run = run_digest(&batch.run_id, replication_id);
        let node = &mut upstream.nodes.list[batch.node];
        let counts = run == batch.run && is_primary && node.epoch == batch.epoch;
        if is_read && run != batch.run && node.epoch == batch.epoch {
            tracing::info!(node = node.info.name, "a node was restarted, its leases are over");
            node.run = Some(run);
            node.epoch += 1;
        }
        if !is_primary {
            env.shared.refresher.ask();
        }
        let answers = batch.answers.iter().copied().chain(std::iter::repeat(None));
        for (tag, answer) in batch.tags.iter().zip(answers) {
            match answer.filter(|_| counts) {
                Some(Touched::Granted) => self.grant(env, *tag, &batch),
                // The server that loads it may have died: the load asked for here waits, or takes over.
                Some(Touched::Cold | Touched::Suspect | Touched::Wait) => self.load(env, *tag),
                None => self.touch_later(env, *tag),
            }
        }
    }

    fn grant(&mut self, env: &Env<'_>, key: Key, batch: &Batch) {
        self.note_use(env, key);
        let lease_us = self.lease_us - self.margin_us;
        let renew_us = batch.sent_us + lease_us - self.renew_ahead_us();
        let Some(tag) = self.tags.get_mut(key) else {
            return;
        };
        tag.state = TagState::Idle;
        tag.node = batch.node;
        tag.epoch = batch.epoch;
        tag.lease_end_us = batch.sent_us + lease_us;
        // Each grant is a new lease: registrations of the one before do not count for it.
        tag.registered.clear();
        tag.is_read = false;
        tag.is_written = false;
        self.granted.append(&mut tag.waiting);
        self.look_at(key, renew_us);
        env.shared.metrics.leases_granted.add(1);
    }

    fn touch_later(&mut self, env: &Env<'_>, key: Key) {
        if let Some(tag) = self.tags.get_mut(key) {
            tag.state = TagState::TouchLater;
            self.look_at(key, env.now_us + TOUCH_AGAIN_US);
        }
    }
}

/// Loads the scripts of the protocol into a node again.
fn reload_scripts(upstream: &mut Upstream, env: &Env<'_>, node: usize) {
    let Some(connection) = upstream.shared_connection(env, node, Lane::default()) else {
        return;
    };
    for script in scripts::all() {
        if matches!(script.name, "touch" | "register") {
            let bytes = encoded(&[b"SCRIPT", b"LOAD", script.source.as_bytes()]);
            let delivery = env.delivery(Origin::Discard, false);
            upstream.send(env, connection, &bytes, env.in_flight(delivery, None));
        }
    }
}
