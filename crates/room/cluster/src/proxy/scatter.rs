//! One request as several, and several replies as one.
//!
//! A request over keys of several tags becomes one request per tag; a request about
//! all data goes to every primary. The parts are not one atomic step: between them
//! others may come.

use nagaya_resp::{Out, Proto, encode_request};
use nagaya_tiering::tag::tag_of;

use super::model::in_flight::{Delivery, Origin};
use super::model::reply::{bulk, elements_of, int};
use super::model::request::Request;
use super::model::routes::{NodeMerge, TagMerge};
use super::model::session::Session;
use super::slab::Key;
use super::worker::Worker;
use crate::hot_tier::keys::is_reserved;

/// How often a node is asked for a random key when it only tells names of our own.
const DRAWS: usize = 64;

/// How the parts become one reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeRule {
    /// The elements of each part go to these places.
    Places(Vec<Vec<usize>>),
    Sum,
    /// How many heard a message: these clients of ours in place of so many connections of ours.
    Receivers {
        clients: usize,
        ours: usize,
    },
    /// All must say the same; the first speaks.
    Same,
    /// This, when none fails.
    Told(String),
    /// Names, our own left out.
    Names,
    /// Elementwise 0 or 1: 1 where all say 1.
    All,
    /// A cursor and names of one node, which is at this position among the primaries.
    Scan {
        position: usize,
    },
    /// A name from any node: these are left to be asked.
    AnyName {
        left: Vec<usize>,
    },
}

/// Parts whose replies are awaited.
pub(crate) struct Gather {
    delivery: Delivery,
    rule: MergeRule,
    replies: Vec<Option<Vec<u8>>>,
    missing: usize,
}

impl Worker<'_> {
    /// Sends one request per tag.
    pub(super) fn split(&mut self, session: &mut Session, request: &Request<'_>, split: TagMerge) {
        if split == TagMerge::Pairs && !self.shared.config.allow_split_mset {
            return self.reply_error(session, &super::model::target::Refusal::CrossSlot.text());
        }
        let step = if split == TagMerge::Pairs { 2 } else { 1 };
        if !(request.args.len() - 1).is_multiple_of(step) {
            return self.reply_error(session, "ERR wrong number of arguments for 'mset' command");
        }
        // Parts in the order of their tags' first keys; positions count keys.
        let mut parts: Vec<(&[u8], Vec<usize>)> = Vec::new();
        for position in 0..(request.args.len() - 1) / step {
            let key = &request.args[1 + position * step];
            if let Err(refusal) = self.rules.check(key) {
                return self.reply_error(session, &refusal.text());
            }
            let tag = tag_of(key);
            match parts.iter_mut().find(|(known, _)| *known == tag) {
                Some((_, positions)) => positions.push(position),
                None => parts.push((tag, vec![position])),
            }
        }
        let rule = match split {
            TagMerge::Values => {
                MergeRule::Places(parts.iter().map(|(_, positions)| positions.clone()).collect())
            }
            TagMerge::Sum => MergeRule::Sum,
            TagMerge::Pairs => MergeRule::Same,
        };
        let delivery = self.client_delivery(session, request.client);
        let gather = self.begin_gather(delivery, rule, parts.len());
        for (part, (_, positions)) in parts.iter().enumerate() {
            let mut words = vec![&request.args[0]];
            for position in positions {
                let first = 1 + position * step;
                words.extend((first..first + step).map(|at| &request.args[at]));
            }
            let mut bytes = Vec::new();
            encode_request(&words, &mut bytes);
            let origin = Origin::Part {
                gather,
                part: part as u32,
            };
            let queued = super::model::in_flight::QueuedRequest {
                bytes,
                delivery: Delivery { origin, ..delivery },
            };
            self.resubmit(queued);
        }
    }

    pub(super) fn begin_gather(&mut self, delivery: Delivery, rule: MergeRule, parts: usize) -> Key {
        self.gathers.insert(Gather {
            delivery,
            rule,
            replies: vec![None; parts],
            missing: parts,
        })
    }

    /// Sends a request to every primary and tells a text of our own when all have taken it.
    pub(super) fn send_everywhere_telling(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        text: String,
    ) {
        let nodes = self.nodes.primaries.clone();
        if nodes.is_empty() {
            return self.send_everywhere(session, request, NodeMerge::Same);
        }
        let delivery = self.client_delivery(session, request.client);
        let gather = self.begin_gather(delivery, MergeRule::Told(text), nodes.len());
        self.send_parts(gather, &nodes, request.bytes, delivery);
    }

    fn send_parts(&mut self, gather: Key, nodes: &[usize], bytes: &[u8], delivery: Delivery) {
        for (part, node) in nodes.iter().enumerate() {
            let origin = Origin::Part {
                gather,
                part: part as u32,
            };
            self.send_to_node(*node, bytes, Delivery { origin, ..delivery });
        }
    }

    /// Sends a request to every primary, or the next one that is asked.
    pub(super) fn send_everywhere(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        gather: NodeMerge,
    ) {
        if self.nodes.primaries.is_empty() {
            let reason = self
                .nodes
                .layout_error
                .clone()
                .unwrap_or_else(|| "no node is known yet".to_owned());
            self.shared.refresher.ask();
            return self.reply_error(
                session,
                &format!("CLUSTERDOWN {}", reason.replace(['\r', '\n'], " ")),
            );
        }
        let rule = match gather {
            NodeMerge::Scan => return self.scan(session, request),
            NodeMerge::AnyName => return self.any_name(session, request),
            NodeMerge::Same => MergeRule::Same,
            NodeMerge::Sum => MergeRule::Sum,
            NodeMerge::Names => MergeRule::Names,
            NodeMerge::All => MergeRule::All,
        };
        let delivery = self.client_delivery(session, request.client);
        if self.leases.is_some() && gather == NodeMerge::Sum {
            let gather = self.begin_gather(delivery, rule, 1);
            return self.count_both_tiers(gather);
        }
        let nodes = self.nodes.primaries.clone();
        let cold = usize::from(self.leases.is_some() && gather == NodeMerge::Names);
        let gather = self.begin_gather(delivery, rule, nodes.len() + cold);
        if cold > 0 {
            self.ask_cold_names(gather, nodes.len() as u32, request);
        }
        self.send_parts(gather, &nodes, request.bytes, delivery);
    }

    /// One node after the other; the cursor says how far it is.
    fn scan(&mut self, session: &mut Session, request: &Request<'_>) {
        let cursor = request.args.get(1).and_then(parse_u64);
        let Some(cursor) = cursor else {
            return self.reply_error(session, "ERR invalid cursor");
        };
        // One place more than there are primaries: the cold tier comes last.
        let places = self.nodes.primaries.len() as u64 + 1;
        let (position, cursor) = ((cursor % places) as usize, cursor / places);
        let delivery = self.client_delivery(session, request.client);
        let gather = self.begin_gather(delivery, MergeRule::Scan { position }, 1);
        let Some(&node) = self.nodes.primaries.get(position) else {
            return self.scan_cold(gather, cursor, request);
        };
        let digits = cursor.to_string();
        let mut words: Vec<&[u8]> = request.args.iter().collect();
        words[1] = digits.as_bytes();
        let mut bytes = Vec::new();
        encode_request(&words, &mut bytes);
        let origin = Origin::Part { gather, part: 0 };
        self.send_to_node(node, &bytes, Delivery { origin, ..delivery });
    }

    fn any_name(&mut self, session: &mut Session, request: &Request<'_>) {
        // Names of our own may be drawn, too, so each node is asked more than once.
        let mut left = self.nodes.primaries.repeat(DRAWS);
        let first = left.swap_remove(self.now_us as usize % left.len());
        let delivery = self.client_delivery(session, request.client);
        let gather = self.begin_gather(delivery, MergeRule::AnyName { left }, 1);
        self.ask_any_name(gather, first, delivery);
    }

    fn ask_any_name(&mut self, gather: Key, node: usize, delivery: Delivery) {
        let mut bytes = Vec::new();
        encode_request(&[b"RANDOMKEY"], &mut bytes);
        let origin = Origin::Part { gather, part: 0 };
        self.send_to_node(node, &bytes, Delivery { origin, ..delivery });
    }

    /// Takes the reply of a part; the last one completes the reply.
    pub(super) fn gather(&mut self, key: Key, part: usize, reply: &[u8]) {
        let Some(gather) = self.gathers.get_mut(key) else {
            return;
        };
        if let MergeRule::AnyName { left } = &mut gather.rule
            && is_no_name(reply, &self.shared.config.hidden)
            && let Some(node) = left.pop()
        {
            let delivery = gather.delivery;
            return self.ask_any_name(key, node, delivery);
        }
        if gather.replies[part].is_none() {
            gather.missing -= 1;
        }
        gather.replies[part] = Some(reply.to_vec());
        if gather.missing > 0 {
            return;
        }
        if let Some(gather) = self.gathers.remove(key) {
            let context = MergeContext {
                places: self.nodes.primaries.len() as u64 + 1,
                has_cold: self.leases.is_some(),
                hidden: &self.shared.config.hidden,
            };
            let reply = gather.reply(&context);
            self.deliver(gather.delivery.origin, &reply);
        }
    }
}

/// What a reply depends on besides its parts.
struct MergeContext<'a> {
    /// One more than there are primaries.
    places: u64,
    has_cold: bool,
    hidden: &'a [Vec<u8>],
}

impl Gather {
    /// Puts the reply together.
    fn reply(&self, context: &MergeContext<'_>) -> Vec<u8> {
        let replies: Vec<&[u8]> = self.replies.iter().flatten().map(Vec::as_slice).collect();
        if let Some(error) = replies.iter().find(|reply| reply.first() == Some(&b'-')) {
            return error.to_vec();
        }
        let proto = if self.delivery.resp3 {
            Proto::Resp3
        } else {
            Proto::Resp2
        };
        let mut out = Out::new(proto);
        match &self.rule {
            MergeRule::Same => out.raw(replies[0]),
            MergeRule::AnyName { .. } if is_no_name(replies[0], context.hidden) => out.nil(),
            MergeRule::AnyName { .. } => out.raw(replies[0]),
            MergeRule::Told(text) => out.bulk_str(text),
            MergeRule::Sum => out.int(replies.iter().filter_map(|reply| int(reply)).sum()),
            MergeRule::Receivers { clients, ours } => {
                let others = int(replies[0]).unwrap_or(0) - *ours as i64;
                out.int(*clients as i64 + others.max(0));
            }
            MergeRule::Places(places) => {
                let mut elements: Vec<&[u8]> = vec![b"$-1\r\n"; places.iter().map(Vec::len).sum()];
                for (reply, places) in replies.iter().zip(places) {
                    for (element, place) in elements_of(reply).into_iter().zip(places) {
                        elements[*place] = element;
                    }
                }
                out.array(elements.len());
                elements.iter().for_each(|element| out.raw(element));
            }
            MergeRule::All => {
                let lists: Vec<Vec<&[u8]>> = replies.iter().map(|reply| elements_of(reply)).collect();
                let length = lists.iter().map(Vec::len).min().unwrap_or(0);
                out.array(length);
                for at in 0..length {
                    out.int(i64::from(lists.iter().all(|list| int(list[at]) == Some(1))));
                }
            }
            MergeRule::Names => {
                let names = replies.iter().flat_map(|reply| elements_of(reply));
                write_names(&mut out, names.collect(), context.hidden);
            }
            MergeRule::Scan { position } => {
                let [cursor, names] = elements_of(replies[0])[..] else {
                    return replies[0].to_vec();
                };
                let cursor = bulk(cursor).and_then(parse_u64).unwrap_or(0);
                let next = *position as u64 + 1;
                let last = context.places - u64::from(!context.has_cold);
                let cursor = match cursor {
                    0 if next < last => next,
                    0 => 0,
                    more => more.saturating_mul(context.places) + *position as u64,
                };
                out.array(2);
                out.bulk_str(&cursor.to_string());
                write_names(&mut out, elements_of(names), context.hidden);
            }
        }
        out.buf
    }
}

/// Writes a list of names without those of our own.
fn write_names(out: &mut Out, names: Vec<&[u8]>, hidden: &[Vec<u8>]) {
    let visible: Vec<&[u8]> = names
        .into_iter()
        .filter(|name| !bulk(name).is_some_and(|name| is_hidden(name, hidden)))
        .collect();
    out.array(visible.len());
    visible.iter().for_each(|name| out.raw(name));
}

/// Tells whether a node had no name to tell, or only one of our own.
fn is_no_name(reply: &[u8], hidden: &[Vec<u8>]) -> bool {
    reply.first() != Some(&b'-') && bulk(reply).is_none_or(|name| is_hidden(name, hidden))
}

/// Tells whether a name is one of our own or of others who share the servers.
fn is_hidden(name: &[u8], hidden: &[Vec<u8>]) -> bool {
    is_reserved(name) || hidden.iter().any(|start| name.starts_with(start))
}

fn parse_u64(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: MergeRule, replies: &[&str], expected: &str) {
        let delivery = Delivery {
            origin: Origin::Nobody,
            resp3: false,
            attempts: 0,
            give_up_us: 0,
        };
        let gather = Gather {
            delivery,
            rule,
            replies: replies
                .iter()
                .map(|reply| Some(reply.as_bytes().to_vec()))
                .collect(),
            missing: 0,
        };
        let context = MergeContext {
            places: 4,
            has_cold: true,
            hidden: &[b"{ids}:".to_vec()],
        };
        let reply = gather.reply(&context);
        assert_eq!(String::from_utf8(reply).unwrap(), expected);
    }

    #[test]
    fn values_go_back_to_the_places_of_their_keys() {
        let rule = MergeRule::Places(vec![vec![0, 2], vec![1]]);
        check(
            rule,
            &["*2\r\n$1\r\na\r\n$-1\r\n", "*1\r\n$1\r\nb\r\n"],
            "*3\r\n$1\r\na\r\n$1\r\nb\r\n$-1\r\n",
        );
    }

    #[test]
    fn counts_are_added_and_one_error_is_the_answer() {
        check(MergeRule::Sum, &[":2\r\n", ":3\r\n"], ":5\r\n");
        check(MergeRule::Sum, &[":2\r\n", "-ERR no\r\n"], "-ERR no\r\n");
        check(
            MergeRule::All,
            &["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n"],
            "*2\r\n:1\r\n:0\r\n",
        );
    }

    #[test]
    fn our_clients_are_counted_in_place_of_our_connections() {
        let rule = |clients, ours| MergeRule::Receivers { clients, ours };
        check(rule(5, 1), &[":1\r\n"], ":5\r\n");
        check(rule(5, 1), &[":3\r\n"], ":7\r\n");
        check(rule(0, 1), &[":0\r\n"], ":0\r\n");
        check(rule(2, 1), &["-ERR no\r\n"], "-ERR no\r\n");
    }

    #[test]
    fn no_random_key_is_one_of_our_own() {
        let rule = || MergeRule::AnyName { left: Vec::new() };
        check(rule(), &["$1\r\na\r\n"], "$1\r\na\r\n");
        check(rule(), &["$12\r\n_room:{a}:me\r\n"], "$-1\r\n");
        check(rule(), &["$11\r\n{ids}:stats\r\n"], "$-1\r\n");
    }

    #[test]
    fn names_of_our_own_are_left_out() {
        check(
            MergeRule::Names,
            &[
                "*2\r\n$1\r\na\r\n$12\r\n_room:{a}:me\r\n",
                "*1\r\n$11\r\n{ids}:stats\r\n",
            ],
            "*1\r\n$1\r\na\r\n",
        );
    }

    #[test]
    fn a_cursor_leads_through_all_nodes_and_the_cold_tier() {
        let page = |cursor: &str| format!("*2\r\n${}\r\n{cursor}\r\n*0\r\n", cursor.len());
        check(MergeRule::Scan { position: 1 }, &[&page("5")], &page("21"));
        check(MergeRule::Scan { position: 1 }, &[&page("0")], &page("2"));
        check(MergeRule::Scan { position: 2 }, &[&page("0")], &page("3"));
        check(MergeRule::Scan { position: 3 }, &[&page("7")], &page("31"));
        check(MergeRule::Scan { position: 3 }, &[&page("0")], &page("0"));
    }
}
