//! ROOM.*: requests about tags, answered by the [`TagAdmin`](crate::proxy::TagAdmin).
//!
//! A client waits in such a request as in BLPOP: all earlier ones are answered, and none behind it is read.

use std::sync::Arc;
use std::time::Duration;

use nagaya_command_spec::error::CommandError;
use nagaya_commands::table;
use nagaya_exec::dispatch::resolve;
use nagaya_exec::executor::Executor;
use nagaya_exec::session::Session as ExecSession;
use nagaya_reactor::Key;
use nagaya_resp::{ArgVec, Args, Out, parse_i64};
use nagaya_tiering::tag::tag_of;

use crate::proxy::config::Tiering;
use crate::proxy::env::Env;
use crate::proxy::inbox::Item;
use crate::proxy::model::in_flight::Origin;
use crate::proxy::model::outbox::Outbox;
use crate::proxy::model::request::{Handled, Request};
use crate::proxy::model::routes::TagCommandKind;
use crate::proxy::model::session::{ReadPause, Session};
use crate::proxy::model::sessions::Sessions;
use crate::proxy::tag_admin::{KeyPlace, ListedTag, Outcome, TagCommand, TagOrder, TagQuery, TagStatus};

/// Tags that are listed without a LIMIT, as many as fit a screen.
const LISTED: usize = 20;
/// The highest LIMIT: each tag in a list costs several commands.
const LISTED_MAX: i64 = 1000;

const SYNTAX: &str = "ERR syntax error";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const NO_COLD_TIER: &str = "ERR this engine has no cold tier";

/// The keys of a tag that a client wants deleted.
pub(crate) struct Erase {
    pub(crate) client: Key,
    pub(crate) names: Vec<Vec<u8>>,
}

/// Some keys of a client's FLUSHALL.
pub(crate) struct Page {
    pub(crate) client: Key,
    pub(crate) names: Vec<Vec<u8>>,
    /// Where the others are listed.
    pub(crate) next: Option<KeyPlace>,
}

/// What is to be deleted before a command can end.
pub(crate) enum Deletion {
    Tag(Erase),
    Page(Page),
}

/// Hands a request about tags over.
pub(crate) fn start(
    env: &Env<'_>,
    session: &mut Session,
    request: &Request<'_>,
    kind: TagCommandKind,
) -> Handled {
    if !session.ring.is_empty() {
        return Handled::TooEarly;
    }
    let Some(tiering) = &env.shared.config.tiering else {
        session.reply_error(NO_COLD_TIER);
        return Handled::Done;
    };
    let command = match parse(kind, &request.args) {
        Ok(command) => command,
        Err(text) => {
            session.reply_error(text);
            return Handled::Done;
        }
    };
    session.pause = ReadPause::Busy;
    ask(env, tiering, session, command);
    Handled::Done
}

fn ask(env: &Env<'_>, tiering: &Tiering, session: &mut Session, command: TagCommand) {
    let wanted = Arc::new(());
    let (weak, inbox, client) = (Arc::downgrade(&wanted), env.inbox.clone(), session.client.id());
    session.tag_command = Some(wanted);
    let done = move |outcome| inbox.push(Item::TagCommand { client, outcome });
    tiering.tag_admin.ask(command, weak, Box::new(done));
}

/// Goes on with a FLUSHALL whose last keys were deleted, or ends it; returns false if the client is gone.
pub(crate) fn go_on(env: &Env<'_>, sessions: &mut Sessions, client: Key, next: KeyPlace) -> bool {
    let (Some(session), Some(tiering)) = (sessions.get_mut(client), &env.shared.config.tiering) else {
        return false;
    };
    ask(env, tiering, session, TagCommand::Everything { from: next });
    true
}

/// Processes the outcome of a client's tag command. Keys that it returns are to be deleted first.
pub(crate) fn on_outcome(
    executor: &mut Executor<'_>,
    outbox: &mut Outbox,
    sessions: &mut Sessions,
    id: u64,
    outcome: Result<Outcome, String>,
) -> Option<Deletion> {
    let client = sessions.key_of(id)?;
    let session = sessions.get_mut(client)?;
    // The client may have its answer already, and wait for another command.
    session.tag_command.take()?;
    let mut out = Out::new(session.client.proto());
    match outcome {
        Ok(Outcome::Names(names)) if !names.is_empty() => {
            match may_erase(executor, &mut session.client, &names) {
                Ok(()) => return Some(Deletion::Tag(Erase { client, names })),
                Err(error) => out.error_bytes(error.to_string().as_bytes()),
            }
        }
        Ok(Outcome::Everything { names, next }) => {
            return Some(Deletion::Page(Page { client, names, next }));
        }
        Ok(Outcome::Names(_)) => out.int(0),
        Ok(Outcome::Count(count)) => out.int(count as i64),
        Ok(Outcome::IsDone(is_done)) => out.int(i64::from(is_done)),
        Ok(Outcome::Status(status)) => write_status(&mut out, &status),
        Ok(Outcome::Listed { tags, cursor }) => write_tags(&mut out, &tags, cursor.as_deref()),
        Err(text) => out.error_bytes(text.replace(['\r', '\n'], " ").as_bytes()),
    }
    end(outbox, sessions, client, &out.buf);
    None
}

/// Checks that a client may delete each of these keys of one tag. Some may have other names than the braces
/// let expect: `tag` itself, or `a{tag}b`.
fn may_erase(
    executor: &mut Executor<'_>,
    client: &mut ExecSession,
    names: &[Vec<u8>],
) -> Result<(), CommandError> {
    let words: ArgVec = ["ROOM.ERASE".as_bytes(), &names[0]].into_iter().collect();
    let args = words.as_args();
    let command = resolve(&table::registry().table, &args)?;
    executor.check_keys_of_tag(client, command, &args, names)
}

/// Ends a client's wait with this reply.
pub(crate) fn end(outbox: &mut Outbox, sessions: &mut Sessions, client: Key, reply: &[u8]) {
    let Some(session) = sessions.get_mut(client) else {
        if sessions.is_live(client) {
            outbox.push(Origin::TagCommand { client }, reply.to_vec());
        }
        return;
    };
    session.reply(reply);
    sessions.mark(client);
    sessions.release(client);
}

/// Parses a request; fails with the text of an error reply.
fn parse(kind: TagCommandKind, args: &Args<'_>) -> Result<TagCommand, &'static str> {
    let tag = || tag_of(args.get(1).unwrap_or_default()).to_vec();
    Ok(match kind {
        TagCommandKind::Status => TagCommand::Status { tag: tag() },
        TagCommandKind::Evict => TagCommand::Evict { tag: tag() },
        TagCommandKind::Erase => TagCommand::Names { tag: tag() },
        TagCommandKind::Flush => {
            let is_mode =
                |word: &[u8]| word.eq_ignore_ascii_case(b"SYNC") || word.eq_ignore_ascii_case(b"ASYNC");
            if args.len() > 2 || args.get(1).is_some_and(|word| !is_mode(word)) {
                return Err(SYNTAX);
            }
            let from = KeyPlace::FIRST;
            TagCommand::Everything { from }
        }
        TagCommandKind::Warm => TagCommand::Warm {
            tags: args.iter().skip(1).map(|tag| tag_of(tag).to_vec()).collect(),
        },
        TagCommandKind::WaitCold => {
            // The writes of all clients are awaited, with and without ALL.
            let is_known = args.len() == 2 || args.len() == 3 && args[2].eq_ignore_ascii_case(b"ALL");
            let wait_ms = args.get(1).and_then(parse_i64).ok_or(NOT_AN_INTEGER)?;
            match u64::try_from(wait_ms) {
                _ if !is_known => return Err(SYNTAX),
                Err(_) => return Err("ERR timeout is negative"),
                Ok(wait_ms) => TagCommand::WaitCold {
                    limit: (wait_ms > 0).then(|| Duration::from_millis(wait_ms)),
                },
            }
        }
        TagCommandKind::Tags => TagCommand::List(tag_query(args)?),
    })
}

fn tag_query(args: &Args<'_>) -> Result<TagQuery, &'static str> {
    let is = |at: usize, word: &str| {
        args.get(at)
            .is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let (order, options) = match () {
        () if is(1, "HOTTEST") => (TagOrder::Hottest, 2),
        () if is(1, "BIGGEST") => (TagOrder::Biggest, 2),
        () if is(1, "PREFIX") => {
            let prefix = args.get(2).ok_or(SYNTAX)?.to_vec();
            (TagOrder::Prefix { prefix, after: None }, 3)
        }
        () => return Err(SYNTAX),
    };
    let mut query = TagQuery { order, limit: LISTED };
    for at in (options..args.len()).step_by(2) {
        let value = args.get(at + 1).ok_or(SYNTAX)?;
        match &mut query.order {
            _ if is(at, "LIMIT") => {
                let limit = parse_i64(value).ok_or(NOT_AN_INTEGER)?;
                if limit < 1 {
                    return Err("ERR value is out of range, must be positive");
                }
                query.limit = limit.min(LISTED_MAX) as usize;
            }
            TagOrder::Prefix { after, .. } if is(at, "CURSOR") => *after = Some(value.to_vec()),
            _ => return Err(SYNTAX),
        }
    }
    Ok(query)
}

fn write_status(out: &mut Out, status: &TagStatus) {
    let fields: [(&str, Option<i64>); 6] = [
        (
            "resident",
            Some(i64::from(status.is_resident && status.hot_keys > 0)),
        ),
        ("hot_keys", Some(status.hot_keys as i64)),
        ("unsaved_keys", Some(status.unsaved_keys as i64)),
        ("cold_keys", Some(status.cold_keys as i64)),
        ("cold_bytes", Some(status.cold_bytes as i64)),
        ("saved_at_ms", status.saved_at_ms),
    ];
    out.map(fields.len() + 2);
    out.bulk(b"tag");
    out.bulk(&status.tag);
    out.bulk(b"status");
    out.bulk_str(status.word());
    for (name, value) in fields {
        out.bulk_str(name);
        match value {
            Some(value) => out.int(value),
            None => out.nil(),
        }
    }
}

fn write_tags(out: &mut Out, tags: &[ListedTag], cursor: Option<&[u8]>) {
    out.array(2);
    match cursor {
        Some(cursor) => out.bulk(cursor),
        None => out.nil(),
    }
    out.array(tags.len());
    for listed in tags {
        out.map(6);
        out.bulk(b"tag");
        out.bulk(&listed.tag);
        out.bulk(b"keys");
        out.int(listed.keys as i64);
        out.bulk(b"bytes");
        out.int(listed.bytes as i64);
        out.bulk(b"idle");
        match listed.idle {
            Some(idle) => out.int(idle.as_secs() as i64),
            None => out.nil(),
        }
        out.bulk(b"place");
        out.bulk_str(listed.place());
        out.bulk(b"dirty");
        out.int(i64::from(listed.is_dirty));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: TagCommandKind, line: &str) -> Result<TagCommand, &'static str> {
        let args: ArgVec = line.split(' ').collect();
        parse(kind, &args.as_args())
    }

    #[test]
    fn a_key_stands_for_its_tag() {
        let tag = b"u7".to_vec();
        assert_eq!(
            read(TagCommandKind::Status, "room.status {u7}:name"),
            Ok(TagCommand::Status { tag: tag.clone() })
        );
        assert_eq!(
            read(TagCommandKind::Erase, "room.erase u7"),
            Ok(TagCommand::Names { tag: tag.clone() })
        );
        let tags = vec![tag, b"b".to_vec()];
        assert_eq!(
            read(TagCommandKind::Warm, "room.warm u7 x{b}"),
            Ok(TagCommand::Warm { tags })
        );
    }

    #[test]
    fn flushes_take_one_word_that_changes_nothing() {
        let from = KeyPlace::FIRST;
        for line in ["flushall", "flushdb async", "flushall Sync"] {
            let from = from.clone();
            assert_eq!(
                read(TagCommandKind::Flush, line),
                Ok(TagCommand::Everything { from })
            );
        }
        for line in ["flushall now", "flushall sync async"] {
            assert_eq!(read(TagCommandKind::Flush, line), Err(SYNTAX));
        }
    }

    #[test]
    fn waits_are_in_milliseconds_and_zero_is_for_ever() {
        let wait = |line: &str| read(TagCommandKind::WaitCold, line);
        let limit = Some(Duration::from_millis(20));
        assert_eq!(wait("room.waitcold 20 all"), Ok(TagCommand::WaitCold { limit }));
        assert_eq!(wait("room.waitcold 0"), Ok(TagCommand::WaitCold { limit: None }));
        assert_eq!(wait("room.waitcold 0 some"), Err(SYNTAX));
        assert_eq!(wait("room.waitcold -1"), Err("ERR timeout is negative"));
        assert_eq!(wait("room.waitcold x"), Err(NOT_AN_INTEGER));
    }

    #[test]
    fn lists_of_tags_take_a_limit_and_those_by_name_a_cursor() {
        let list = |line: &str| read(TagCommandKind::Tags, line);
        let query = |order, limit| Ok(TagCommand::List(TagQuery { order, limit }));
        assert_eq!(list("room.tags hottest"), query(TagOrder::Hottest, 20));
        assert_eq!(
            list("room.tags biggest limit 5000"),
            query(TagOrder::Biggest, 1000)
        );
        let by_name = |after: Option<&[u8]>| TagOrder::Prefix {
            prefix: b"u".to_vec(),
            after: after.map(<[u8]>::to_vec),
        };
        assert_eq!(list("room.tags prefix u"), query(by_name(None), 20));
        assert_eq!(
            list("room.tags prefix u cursor u4 limit 3"),
            query(by_name(Some(b"u4")), 3)
        );
        assert_eq!(list("room.tags hottest cursor u4"), Err(SYNTAX));
        assert_eq!(list("room.tags hottest limit"), Err(SYNTAX));
        assert_eq!(list("room.tags coldest"), Err(SYNTAX));
    }
}
