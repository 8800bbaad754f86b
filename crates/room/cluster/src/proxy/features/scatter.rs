//! One request as several, and several replies as one.
//!
//! A request over keys of several tags becomes one request per tag; a request about
//! all data goes to every primary. The parts are not one atomic step: other requests
//! may run between them.

use nagaya_reactor::{Key, Slab};
use nagaya_resp::encode_request;
use nagaya_tiering::tag::tag_of;

use crate::proxy::env::Env;
use crate::proxy::forwarder::Forwarder;
use crate::proxy::model::Map;
use crate::proxy::model::in_flight::{Delivery, Origin, QueuedRequest};
use crate::proxy::model::merge::{Gather, MergeContext, MergeRule, is_no_name, parse_u64};
use crate::proxy::model::reply::encoded;
use crate::proxy::model::request::{ColdRead, ColdReadKind, Request};
use crate::proxy::model::routes::{NodeMerge, TagMerge};
use crate::proxy::model::session::Session;
use crate::proxy::model::target::Refusal;

/// How often a node is asked for a random key while it only returns hidden ones.
const DRAWS: usize = 64;
/// Keys in one DEL of an erased tag: a node runs it in some milliseconds.
const ERASED_AT_ONCE: usize = 10_000;

/// The requests whose parts are awaited.
#[derive(Default)]
pub(crate) struct Scatter {
    gathers: Slab<Gather>,
}

impl Scatter {
    /// Awaits parts; returns their key.
    fn begin(&mut self, delivery: Delivery, rule: MergeRule, parts: usize) -> Key {
        self.gathers.insert(Gather::new(delivery, rule, parts))
    }

    /// Returns the delivery of the only part of a request whose reply is changed.
    pub(crate) fn single(&mut self, delivery: Delivery, rule: MergeRule) -> Delivery {
        let gather = self.begin(delivery, rule, 1);
        part_of(delivery, gather, 0)
    }

    /// Sends one request per tag.
    pub(crate) fn by_tag(
        &mut self,
        io: &mut Forwarder,
        env: &Env<'_>,
        session: &mut Session,
        request: &Request<'_>,
        merge: TagMerge,
    ) {
        if merge == TagMerge::Pairs && !env.shared.config.allow_split_mset {
            return session.reply_error(&Refusal::CrossSlot.text());
        }
        let step = if merge == TagMerge::Pairs { 2 } else { 1 };
        if !(request.args.len() - 1).is_multiple_of(step) {
            return session.reply_error("ERR wrong number of arguments for 'mset' command");
        }
        // Parts in the order of their tags' first keys; positions count keys.
        let mut parts: Vec<(&[u8], Vec<usize>)> = Vec::new();
        for position in 0..(request.args.len() - 1) / step {
            let key = &request.args[1 + position * step];
            if let Err(refusal) = env.rules.check(key) {
                return session.reply_error(&refusal.text());
            }
            let tag = tag_of(key);
            match parts.iter_mut().find(|(known, _)| *known == tag) {
                Some((_, positions)) => positions.push(position),
                None => parts.push((tag, vec![position])),
            }
        }
        let rule = match merge {
            TagMerge::Values => {
                MergeRule::Places(parts.iter().map(|(_, positions)| positions.clone()).collect())
            }
            TagMerge::Sum => MergeRule::Sum,
            TagMerge::Pairs => MergeRule::Same,
        };
        let delivery = session.next_delivery(request.client, env.give_up_us());
        let gather = self.begin(delivery, rule, parts.len());
        for (part, (_, positions)) in parts.iter().enumerate() {
            let mut words = vec![&request.args[0]];
            for position in positions {
                let first = 1 + position * step;
                words.extend((first..first + step).map(|at| &request.args[at]));
            }
            let mut bytes = Vec::new();
            encode_request(&words, &mut bytes);
            let delivery = part_of(delivery, gather, part);
            io.resubmit(env, QueuedRequest { bytes, delivery });
        }
    }

    /// Sends a request to every primary, or to the one whose turn it is. Returns what is to be asked of the
    /// cold tier.
    pub(crate) fn everywhere(
        &mut self,
        io: &mut Forwarder,
        env: &Env<'_>,
        session: &mut Session,
        request: &Request<'_>,
        merge: NodeMerge,
    ) -> Option<ColdRead> {
        if io.upstream.nodes.primaries.is_empty() {
            no_nodes(io, env, session);
            return None;
        }
        let rule = match merge {
            NodeMerge::Scan => return self.scan(io, env, session, request),
            NodeMerge::AnyName => {
                self.any_name(io, env, session, request);
                return None;
            }
            NodeMerge::Same => MergeRule::Same,
            NodeMerge::Sum => MergeRule::Sum,
            NodeMerge::Names => MergeRule::Names,
            NodeMerge::All => MergeRule::All,
        };
        let delivery = session.next_delivery(request.client, env.give_up_us());
        if env.has_tiers() && merge == NodeMerge::Sum {
            let gather = self.begin(delivery, rule, 1);
            return Some(cold_read(gather, 0, ColdReadKind::Count));
        }
        let nodes = io.upstream.nodes.primaries.clone();
        let has_cold = env.has_tiers() && merge == NodeMerge::Names;
        let gather = self.begin(delivery, rule, nodes.len() + usize::from(has_cold));
        send_parts(io, env, gather, &nodes, (request.bytes, delivery));
        has_cold.then(|| cold_read(gather, nodes.len(), ColdReadKind::AllKeys))
    }

    /// Sends a request to every primary; its client gets this text once all have run it.
    pub(crate) fn everywhere_with_text(
        &mut self,
        io: &mut Forwarder,
        env: &Env<'_>,
        session: &mut Session,
        request: &Request<'_>,
        text: String,
    ) {
        let nodes = io.upstream.nodes.primaries.clone();
        if nodes.is_empty() {
            return no_nodes(io, env, session);
        }
        let delivery = session.next_delivery(request.client, env.give_up_us());
        let gather = self.begin(delivery, MergeRule::Text(text), nodes.len());
        send_parts(io, env, gather, &nodes, (request.bytes, delivery));
    }

    /// Completes an INFO with the keys of all nodes, and of both tiers if they were counted before. Returns what is to be asked of the cold tier.
    pub(crate) fn info(
        &mut self,
        io: &mut Forwarder,
        env: &Env<'_>,
        session: &mut Session,
        request: &Request<'_>,
        (reply, counted): (Vec<u8>, Option<u64>),
    ) -> Option<ColdRead> {
        let nodes = io.upstream.nodes.primaries.clone();
        if nodes.is_empty() {
            session.append_reply(&reply);
            return None;
        }
        let delivery = session.next_delivery(request.client, env.give_up_us());
        let rule = MergeRule::Keyspace { reply };
        let gather = self.begin(delivery, rule, nodes.len() + usize::from(env.has_tiers()));
        let mut cold = None;
        if env.has_tiers() {
            match counted {
                Some(count) => {
                    if let Some(gather) = self.gathers.get_mut(gather) {
                        gather.add(nodes.len(), format!(":{count}\r\n").as_bytes());
                    }
                }
                None => cold = Some(cold_read(gather, nodes.len(), ColdReadKind::Count)),
            }
        }
        let bytes = encoded(&[b"INFO", b"keyspace"]);
        send_parts(io, env, gather, &nodes, (&bytes, delivery));
        cold
    }

    /// Scans one node after the other; the cursor tells which one is next.
    fn scan(
        &mut self,
        io: &mut Forwarder,
        env: &Env<'_>,
        session: &mut Session,
        request: &Request<'_>,
    ) -> Option<ColdRead> {
        let Some(cursor) = request.args.get(1).and_then(parse_u64) else {
            session.reply_error("ERR invalid cursor");
            return None;
        };
        let primaries = &io.upstream.nodes.primaries;
        // One place more than there are primaries: the cold tier comes last.
        let places = primaries.len() as u64 + 1;
        let (position, cursor) = ((cursor % places) as usize, cursor / places);
        let delivery = session.next_delivery(request.client, env.give_up_us());
        let gather = self.begin(delivery, MergeRule::Scan { position }, 1);
        let Some(&node) = primaries.get(position) else {
            return Some(cold_read(gather, 0, ColdReadKind::Page { cursor }));
        };
        let digits = cursor.to_string();
        let mut words: Vec<&[u8]> = request.args.iter().collect();
        words[1] = digits.as_bytes();
        let delivery = part_of(delivery, gather, 0);
        io.upstream.send_to_node(env, node, &encoded(&words), delivery);
        None
    }

    fn any_name(&mut self, io: &mut Forwarder, env: &Env<'_>, session: &mut Session, request: &Request<'_>) {
        // Reserved names may be drawn, too, so each node is asked more than once.
        let mut left = io.upstream.nodes.primaries.repeat(DRAWS);
        let first = left.swap_remove(env.now_us as usize % left.len());
        let delivery = session.next_delivery(request.client, env.give_up_us());
        let gather = self.begin(delivery, MergeRule::AnyName { left }, 1);
        ask_any_name(io, env, first, part_of(delivery, gather, 0));
    }

    /// Deletes keys for a client that waits for the end of its tag command.
    pub(crate) fn delete(&mut self, io: &mut Forwarder, env: &Env<'_>, client: Key, names: &[Vec<u8>]) {
        let mut by_tag: Map<&[u8], Vec<&[u8]>> = Map::default();
        for name in names {
            by_tag.entry(tag_of(name)).or_default().push(name);
        }
        let chunks = by_tag.values().flat_map(|names| names.chunks(ERASED_AT_ONCE));
        let parts: Vec<&[&[u8]]> = chunks.collect();
        let delivery = env.delivery(Origin::TagCommand { client }, false);
        let gather = self.begin(delivery, MergeRule::Sum, parts.len());
        for (part, names) in parts.into_iter().enumerate() {
            let mut words: Vec<&[u8]> = vec![b"DEL"];
            words.extend(names);
            let bytes = encoded(&words);
            let delivery = part_of(delivery, gather, part);
            io.resubmit(env, QueuedRequest { bytes, delivery });
        }
    }

    /// Processes the reply of a part; the last one completes the reply.
    pub(crate) fn on_part(&mut self, io: &mut Forwarder, env: &Env<'_>, key: Key, part: usize, reply: &[u8]) {
        let Some(gather) = self.gathers.get_mut(key) else {
            return;
        };
        if let MergeRule::AnyName { left } = &mut gather.rule
            && is_no_name(reply, &env.shared.config.hidden)
            && let Some(node) = left.pop()
        {
            return ask_any_name(io, env, node, part_of(gather.delivery, key, 0));
        }
        if !gather.add(part, reply) {
            return;
        }
        if let Some(gather) = self.gathers.remove(key) {
            let context = MergeContext {
                places: io.upstream.nodes.primaries.len() as u64 + 1,
                has_cold: env.has_tiers(),
                hidden: &env.shared.config.hidden,
            };
            let reply = gather.reply(&context);
            io.outbox.push(gather.delivery.origin, reply);
        }
    }
}

/// Returns the delivery of a part of a request.
fn part_of(delivery: Delivery, gather: Key, part: usize) -> Delivery {
    let origin = Origin::Part {
        gather,
        part: part as u32,
    };
    Delivery { origin, ..delivery }
}

fn cold_read(gather: Key, part: usize, kind: ColdReadKind) -> ColdRead {
    let origin = Origin::Part {
        gather,
        part: part as u32,
    };
    ColdRead { origin, kind }
}

fn send_parts(
    io: &mut Forwarder,
    env: &Env<'_>,
    gather: Key,
    nodes: &[usize],
    (bytes, delivery): (&[u8], Delivery),
) {
    for (part, node) in nodes.iter().enumerate() {
        let delivery = part_of(delivery, gather, part);
        io.upstream.send_to_node(env, *node, bytes, delivery);
    }
}

fn ask_any_name(io: &mut Forwarder, env: &Env<'_>, node: usize, delivery: Delivery) {
    let bytes = encoded(&[b"RANDOMKEY"]);
    io.upstream.send_to_node(env, node, &bytes, delivery);
}

fn no_nodes(io: &Forwarder, env: &Env<'_>, session: &mut Session) {
    let error = io.upstream.nodes.layout_error.as_deref();
    let reason = error.unwrap_or("no node is known yet");
    env.shared.refresher.ask();
    session.reply_error(&format!("CLUSTERDOWN {}", reason.replace(['\r', '\n'], " ")));
}
