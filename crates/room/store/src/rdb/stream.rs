//! Streams in payloads: blocks as they are, then counts, then groups.

use std::collections::{BTreeMap, VecDeque};

use super::RestoreError;
use super::wire::{Reader, put_length, put_string};
use crate::listpack::Listpack;
use crate::stream::{ENTRIES_READ_UNKNOWN, Group, Node, Pending, Stream, StreamId};

/// Which Redis version laid the payload out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Redis5,
    Redis7,
    Redis72,
}

pub(super) fn put_stream(out: &mut Vec<u8>, stream: &Stream) {
    let nodes = stream.nodes();
    put_length(out, nodes.len() as u64);
    for node in nodes {
        put_string(out, &node.id.to_bytes());
        put_string(out, node.pack.as_bytes());
    }
    put_length(out, stream.len());
    put_id(out, stream.last_id());
    put_id(out, stream.first_id());
    put_id(out, stream.max_deleted_id());
    put_length(out, stream.entries_added());
    let groups = stream.groups();
    put_length(out, groups.len() as u64);
    for (name, group) in groups {
        put_string(out, name);
        put_group(out, group);
    }
}

fn put_id(out: &mut Vec<u8>, id: StreamId) {
    put_length(out, id.ms);
    put_length(out, id.seq);
}

fn put_group(out: &mut Vec<u8>, group: &Group) {
    put_id(out, group.last_id);
    put_length(out, group.entries_read as u64);
    put_length(out, group.pending_len() as u64);
    for (id, pending) in group.pending_range(..) {
        out.extend_from_slice(&id.to_bytes());
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        put_length(out, pending.deliveries);
    }
    let consumers = group.consumers();
    put_length(out, consumers.len() as u64);
    for (_, consumer) in consumers {
        put_string(out, consumer.name());
        out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        put_length(out, consumer.pending_len() as u64);
        for id in consumer.pending_range(..) {
            out.extend_from_slice(&id.to_bytes());
        }
    }
}

pub(super) fn read_stream(from: &mut Reader<'_>, layout: Layout) -> Result<Stream, RestoreError> {
    let mut nodes = VecDeque::new();
    for _ in 0..from.count()? {
        nodes.push_back(read_node(from)?);
    }
    let len = from.length()?;
    let last_id = read_id(from)?;
    let first_id = if layout == Layout::Redis5 {
        None
    } else {
        Some(read_id(from)?)
    };
    let mut stream = Stream::from_nodes(nodes, len, last_id, first_id).ok_or(RestoreError::BadData)?;
    stream.set_entries_added(len);
    if layout != Layout::Redis5 {
        stream.set_max_deleted_id(read_id(from)?);
        stream.set_entries_added(from.length()?);
    }
    for _ in 0..from.count()? {
        read_group(from, layout, &mut stream)?;
    }
    Ok(stream)
}

fn read_node(from: &mut Reader<'_>) -> Result<Node, RestoreError> {
    let key = from.string()?;
    let key = <[u8; 16]>::try_from(&*key).map_err(|_| RestoreError::BadData)?;
    let pack = Listpack::from_bytes(from.string()?.into_owned()).ok_or(RestoreError::BadData)?;
    Node::checked(StreamId::from_bytes(key), pack).ok_or(RestoreError::BadData)
}

fn read_id(from: &mut Reader<'_>) -> Result<StreamId, RestoreError> {
    Ok(StreamId::new(from.length()?, from.length()?))
}

fn read_raw_id(from: &mut Reader<'_>) -> Result<StreamId, RestoreError> {
    from.array().map(StreamId::from_bytes)
}

fn read_group(from: &mut Reader<'_>, layout: Layout, stream: &mut Stream) -> Result<(), RestoreError> {
    let name = from.string()?;
    let last_id = read_id(from)?;
    let entries_read = if layout == Layout::Redis5 {
        stream
            .entries_read_at(last_id)
            .map_or(ENTRIES_READ_UNKNOWN, |read| read as i64)
    } else {
        from.length()? as i64
    };
    if !stream.create_group(&name, last_id, entries_read) {
        return Err(RestoreError::BadData);
    }
    let group = stream.group_mut(&name).expect("the group was just made");
    let mut unowned = BTreeMap::new();
    for _ in 0..from.count()? {
        let id = read_raw_id(from)?;
        let delivered_ms = i64::from_le_bytes(from.array()?);
        if unowned.insert(id, (delivered_ms, from.length()?)).is_some() {
            return Err(RestoreError::BadData);
        }
    }
    for _ in 0..from.count()? {
        read_consumer(from, layout, group, &mut unowned)?;
    }
    if unowned.is_empty() {
        Ok(())
    } else {
        Err(RestoreError::BadData)
    }
}

/// Reads a consumer and gives it its share of the group's pending entries.
fn read_consumer(
    from: &mut Reader<'_>,
    layout: Layout,
    group: &mut Group,
    unowned: &mut BTreeMap<StreamId, (i64, u64)>,
) -> Result<(), RestoreError> {
    let name = from.string()?;
    let seen_ms = i64::from_le_bytes(from.array()?);
    let owner = group
        .create_consumer(&name, seen_ms)
        .ok_or(RestoreError::BadData)?;
    if layout == Layout::Redis72 {
        from.array::<8>()?;
    }
    for _ in 0..from.count()? {
        let id = read_raw_id(from)?;
        let (delivered_ms, deliveries) = unowned.remove(&id).ok_or(RestoreError::BadData)?;
        let mut pending = Pending::new(owner, delivered_ms);
        pending.deliveries = deliveries;
        group.set_pending(id, pending);
    }
    Ok(())
}
