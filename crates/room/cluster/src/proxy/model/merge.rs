//! How the replies to the parts of a request become one reply.

use nagaya_resp::{Out, Proto};

use super::in_flight::Delivery;
use super::reply::{bulk, elements_of, info_field, int};
use crate::hot_tier::keys::is_reserved;

/// The title of the section of INFO that has a line for each database.
pub(crate) const KEYSPACE: &[u8] = b"# Keyspace\r\n";

/// How partial replies are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeRule {
    /// The elements of each part go to these places.
    Places(Vec<Vec<usize>>),
    Sum,
    /// The receivers of a message: the node's count, with `clients` in place of `ours`, our own connections.
    Receivers {
        clients: usize,
        ours: usize,
    },
    /// All say the same; the first reply is taken.
    Same,
    /// This text, if no part fails.
    Text(String),
    /// Names of keys; reserved ones are left out.
    Names,
    /// Elementwise 0 or 1: 1 where all parts have 1.
    All,
    /// A cursor and names from the node at this position among the primaries.
    Scan {
        position: usize,
    },
    /// The replies to INFO of all nodes, and the number of keys in both tiers if there are two: this reply,
    /// completed by the line of the keyspace.
    Keyspace {
        reply: Vec<u8>,
    },
    /// A name from any node; these nodes are asked next.
    AnyName {
        left: Vec<usize>,
    },
}

/// Parts whose replies are awaited.
pub(crate) struct Gather {
    pub(crate) delivery: Delivery,
    pub(crate) rule: MergeRule,
    replies: Vec<Option<Vec<u8>>>,
    missing: usize,
}

impl Gather {
    pub(crate) fn new(delivery: Delivery, rule: MergeRule, parts: usize) -> Gather {
        Gather {
            delivery,
            rule,
            replies: vec![None; parts],
            missing: parts,
        }
    }

    /// Adds the reply of a part; returns whether all are there.
    pub(crate) fn add(&mut self, part: usize, reply: &[u8]) -> bool {
        if self.replies[part].is_none() {
            self.missing -= 1;
        }
        self.replies[part] = Some(reply.to_vec());
        self.missing == 0
    }
}

/// What a merged reply depends on besides its parts.
pub(crate) struct MergeContext<'a> {
    /// One more than there are primaries.
    pub(crate) places: u64,
    pub(crate) has_cold: bool,
    pub(crate) hidden: &'a [Vec<u8>],
}

impl Gather {
    /// Returns the merged reply.
    pub(crate) fn reply(&self, context: &MergeContext<'_>) -> Vec<u8> {
        let replies: Vec<&[u8]> = self.replies.iter().flatten().map(Vec::as_slice).collect();
        if let MergeRule::Keyspace { reply } = &self.rule {
            return with_keyspace(reply, &replies);
        }
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
            // Answered above: it tells what it knows when a node does not answer.
            MergeRule::Keyspace { reply } => out.raw(reply),
            MergeRule::Same => out.raw(replies[0]),
            MergeRule::AnyName { .. } if is_no_name(replies[0], context.hidden) => out.nil(),
            MergeRule::AnyName { .. } => out.raw(replies[0]),
            MergeRule::Text(text) => out.bulk_str(text),
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

/// Returns the reply to INFO with the line of the keyspace behind its title, or as it is if a part is missing.
/// A part that is a number tells the keys of both tiers; the others tell those in memory.
fn with_keyspace(reply: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let (mut keys, mut expires, mut ttl_ms, mut counted) = (0, 0, 0.0, None);
    for part in parts {
        if part.first() == Some(&b'-') {
            return reply.to_vec();
        }
        if let Some(count) = int(part) {
            counted = Some(count);
            continue;
        }
        let line = info_field(part, "db0").unwrap_or_default();
        let field = |name: &str| {
            let value = line
                .split(',')
                .find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<i64>().ok()).unwrap_or(0)
        };
        keys += field("keys");
        expires += field("expires");
        ttl_ms += field("avg_ttl") as f64 * field("expires") as f64;
    }
    let keys = counted.unwrap_or(keys);
    let head = reply
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let title = reply.windows(KEYSPACE.len()).position(|part| part == KEYSPACE);
    let (Some(title), true) = (title, keys > 0) else {
        return reply.to_vec();
    };
    let average_ms = if expires > 0 { ttl_ms / expires as f64 } else { 0.0 };
    // Nodes count names of our own that expire, too.
    let expires = expires.min(keys);
    let line = format!("db0:keys={keys},expires={expires},avg_ttl={average_ms:.0}\r\n");
    let (before, after) = reply.split_at(title + KEYSPACE.len());
    let length = reply.len() - head - 2 + line.len();
    let first = char::from(reply[0]);
    [
        format!("{first}{length}\r\n").as_bytes(),
        &before[head..],
        line.as_bytes(),
        after,
    ]
    .concat()
}

/// Writes a list of names without the hidden ones.
fn write_names(out: &mut Out, names: Vec<&[u8]>, hidden: &[Vec<u8>]) {
    let visible: Vec<&[u8]> = names
        .into_iter()
        .filter(|name| !bulk(name).is_some_and(|name| is_hidden(name, hidden)))
        .collect();
    out.array(visible.len());
    visible.iter().for_each(|name| out.raw(name));
}

/// Returns whether a node has no key, or returned a hidden one.
pub(crate) fn is_no_name(reply: &[u8], hidden: &[Vec<u8>]) -> bool {
    reply.first() != Some(&b'-') && bulk(reply).is_none_or(|name| is_hidden(name, hidden))
}

/// Returns whether a name is reserved, or belongs to another service on the same servers.
fn is_hidden(name: &[u8], hidden: &[Vec<u8>]) -> bool {
    is_reserved(name) || hidden.iter().any(|start| name.starts_with(start))
}

/// Reads a cursor.
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::model::in_flight::Origin;

    #[track_caller]
    fn check(rule: MergeRule, replies: &[&str], expected: &str) {
        let delivery = Delivery {
            origin: Origin::Discard,
            resp3: false,
            is_tracked: false,
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
    fn the_keyspace_is_that_of_all_nodes_or_of_both_tiers() {
        let whole = |line: &str| format!("${}\r\n# Keyspace\r\n{line}\r\n# X\r\n\r\n", line.len() + 19);
        let rule = || MergeRule::Keyspace {
            reply: whole("").into_bytes(),
        };
        let node = |line: &str| format!("${}\r\n# Keyspace\r\n{line}\r\n", line.len() + 12);
        let one = node("db0:keys=3,expires=1,avg_ttl=100\r\n");
        let other = node("db0:keys=4,expires=3,avg_ttl=500\r\n");
        let sum = whole("db0:keys=7,expires=4,avg_ttl=400\r\n");
        check(rule(), &[&one, &other], &sum);
        let counted = whole("db0:keys=9,expires=1,avg_ttl=100\r\n");
        check(rule(), &[&one, ":9\r\n"], &counted);
        check(rule(), &[&one, "-TRYAGAIN not now\r\n"], &whole(""));
        check(rule(), &[&node(""), ":0\r\n"], &whole(""));
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
