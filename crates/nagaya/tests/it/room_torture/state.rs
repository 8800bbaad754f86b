//! All that keys hold, asked for with commands and shown the same whatever form the values have.

use std::collections::BTreeMap;

use nagaya_resp::Frame;

use super::wire::{Request, words};

/// What keys hold, by name; keys that are not there are left out.
pub(super) type State = BTreeMap<String, Vec<String>>;

/// Reads keys from any server that answers requests.
pub(super) fn read(keys: &[String], mut ask: impl FnMut(&[Request]) -> Vec<Frame>) -> State {
    let heads: Vec<Request> = keys
        .iter()
        .flat_map(|key| [request(&["TYPE"], key), request(&["PEXPIRETIME"], key)])
        .collect();
    let heads = ask(&heads);
    let mut state = State::new();
    for (key, head) in keys.iter().zip(heads.chunks(2)) {
        let kind = text(&head[0]);
        let reads = reads(&kind, key);
        if reads.is_empty() {
            continue;
        }
        let replies = ask(&reads);
        let mut shown = vec![kind.clone(), text(&head[1])];
        shown.extend(replies.iter().map(|reply| canonical(&kind, reply)));
        if kind == "stream" {
            for group in group_names(&replies[1]) {
                let pending = ask(&[words(&format!("XPENDING {key} {group} - + 1000"))]);
                shown.push(format!("{group}: {}", pending_without_times(&pending[0])));
            }
        }
        state.insert(key.clone(), shown);
    }
    state
}

fn request(head: &[&str], key: &str) -> Request {
    let head = head.iter().map(|word| word.as_bytes().to_vec());
    head.chain([key.as_bytes().to_vec()]).collect()
}

fn reads(kind: &str, key: &str) -> Vec<Request> {
    let reads: &[&str] = match kind {
        "string" => &["GET {}"],
        "list" => &["LRANGE {} 0 -1"],
        "hash" => &["HGETALL {}"],
        "set" => &["SMEMBERS {}"],
        "zset" => &["ZRANGE {} 0 -1 WITHSCORES"],
        "stream" => &["XRANGE {} - +", "XINFO GROUPS {}"],
        _ => &[],
    };
    reads.iter().map(|read| words(&read.replace("{}", key))).collect()
}

fn canonical(kind: &str, reply: &Frame) -> String {
    let Frame::Array(items) = reply else {
        return format!("{reply:?}");
    };
    let group = match kind {
        "set" => 1,
        "hash" => 2,
        _ => return format!("{reply:?}"),
    };
    let mut shown: Vec<String> = items.chunks(group).map(|item| format!("{item:?}")).collect();
    shown.sort_unstable();
    shown.concat()
}

fn group_names(groups: &Frame) -> Vec<String> {
    items(groups).iter().map(|group| text(&items(group)[1])).collect()
}

/// Ids, consumers and deliveries; not how long ago, which two servers never agree on.
fn pending_without_times(pending: &Frame) -> String {
    let shown = items(pending).iter().map(|entry| {
        let entry = items(entry);
        format!("{:?} {:?} {:?};", entry[0], entry[1], entry[3])
    });
    shown.collect()
}

pub(super) fn items(frame: &Frame) -> &[Frame] {
    match frame {
        Frame::Array(items) => items,
        other => panic!("not an array: {other:?}"),
    }
}

pub(super) fn text(frame: &Frame) -> String {
    match frame {
        Frame::Simple(bytes) | Frame::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Frame::Int(number) => number.to_string(),
        other => panic!("not a text: {other:?}"),
    }
}
