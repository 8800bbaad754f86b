//! Ids and entries of streams as requests and replies write them.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_resp::Out;
use nagaya_store::listpack::ItemBuf;
use nagaya_store::stream::{Entry, StreamId};

pub(super) type Reply = Result<(), CommandError>;

pub(super) const INVALID_ID: CommandError = CommandError::Err(std::borrow::Cow::Borrowed(
    "Invalid stream ID specified as stream command argument",
));

/// Reads an id that must be numbers; a missing sequence is 0.
pub(super) fn parse_id(text: &[u8]) -> Result<StreamId, CommandError> {
    StreamId::parse(text, 0).ok_or(INVALID_ID)
}

/// Reads an id that may also be `-` or `+`, the lowest and the highest.
pub(super) fn parse_id_or_end(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => StreamId::parse(text, missing_seq).ok_or(INVALID_ID),
    }
}

/// Reads the low end of a range; a leading `(` leaves the id itself out.
pub(super) fn parse_start(text: &[u8]) -> Result<StreamId, CommandError> {
    match exclusive(text) {
        None => parse_id_or_end(text, 0),
        Some(id) => parse_id(id)?
            .next()
            .ok_or(CommandError::err("invalid start ID for the interval")),
    }
}

/// Reads the high end of a range; a leading `(` leaves the id itself out.
pub(super) fn parse_end(text: &[u8]) -> Result<StreamId, CommandError> {
    match exclusive(text) {
        None => parse_id_or_end(text, u64::MAX),
        Some(id) => {
            let id = StreamId::parse(id, u64::MAX).ok_or(INVALID_ID)?;
            id.prev()
                .ok_or(CommandError::err("invalid end ID for the interval"))
        }
    }
}

fn exclusive(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(").filter(|id| !id.is_empty())
}

/// The text of an id, without an allocation.
pub(super) struct IdText {
    text: [u8; 41],
    length: usize,
}

impl IdText {
    pub(super) fn new(id: StreamId) -> IdText {
        let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (ms, seq) = (ms.format(id.ms).as_bytes(), seq.format(id.seq).as_bytes());
        let mut text = [b'-'; 41];
        text[..ms.len()].copy_from_slice(ms);
        let length = ms.len() + 1 + seq.len();
        text[ms.len() + 1..length].copy_from_slice(seq);
        IdText { text, length }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

pub(super) fn put_id(out: &mut Out, id: StreamId) {
    out.bulk(IdText::new(id).as_bytes());
}

/// Writes an entry: its id and its fields with their values.
pub(super) fn put_entry(out: &mut Out, entry: &Entry<'_>) {
    out.array(2);
    put_id(out, entry.id);
    out.array(entry.len() * 2);
    let mut buf = ItemBuf::new();
    for (field, value) in entry.fields() {
        out.bulk(field.as_bytes(&mut buf));
        out.bulk(value.as_bytes(&mut buf));
    }
}

pub(super) fn lossy(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// What XGROUP and XINFO say to arguments that they cannot make sense of.
pub(super) fn subcommand_syntax(ctx: &Ctx<'_, '_>) -> CommandError {
    let name = ctx.args.get(0).unwrap_or_default().to_ascii_uppercase();
    let sub = ctx.args.get(1).unwrap_or_default();
    let sub = lossy(&sub[..sub.len().min(128)]);
    let name = lossy(&name);
    CommandError::err(format!(
        "unknown subcommand or wrong number of arguments for '{sub}'. Try {name} HELP."
    ))
}
