//! Doing again what a record tells.

use std::sync::Arc;

use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::table::{Command, CommandTable};
use nagaya_connections::client::{Mailbox, Message};
use nagaya_keyspace::databases::tag_name;
use nagaya_keyspace::db::{Db, DbTurn};
use nagaya_keyspace::effects::{AT, Corrupt, Reader, SELECT};
use nagaya_keyspace::hash_tag::hash_tag;
use nagaya_keyspace::notify::Events;
use nagaya_resp::{Args, Out, Proto, parse_i64};

use crate::ctx::Ctx;
use crate::dispatch::resolve;
use crate::executor::Executor;
use crate::session::Session;

/// Why a record cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    #[error("record names the unknown or incomplete command '{0}'")]
    UnknownCommand(String),
    #[error("effect of '{0}' touches more than one hash tag")]
    SeveralTags(String),
    /// The data is not what it was when the effect was recorded.
    #[error("effect of '{command}' was refused: {reply}")]
    Refused { command: String, reply: String },
    #[error("record is about database {number}, and `room.databases` is {count}")]
    NoSuchDatabase { number: usize, count: usize },
    #[error("a slow script holds the keys")]
    Busy,
}

/// What an effect is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectOn<'a> {
    /// A tag, given its name in the cold tier.
    Tag(&'a [u8]),
    /// Which database has which space (SWAPDB). Applied twice, it would undo itself.
    Databases,
    /// All keys, or none (FLUSHALL, FLUSHDB, FUNCTION). It may be applied twice.
    Everything,
}

/// A mailbox that discards messages: replay notifies no client.
struct Nobody;

impl Mailbox for Nobody {
    fn deliver(&self, _: u64, _: Message) {}
}

impl Executor<'_> {
    /// Applies the effects of a record, in order, as far as they are wanted; returns how many were.
    ///
    /// `wanted` is asked about each effect. No rights are checked, nothing is recorded, published or served, and no key expires: one whose time is past stays until the record says that it went. After an
    /// error the effects before it stay applied.
    pub fn apply_effects(
        &mut self,
        record: &[u8],
        wanted: &mut dyn FnMut(EffectOn<'_>) -> bool,
    ) -> Result<usize, ReplayError> {
        let mut session = Session::new(0, Arc::new(Nobody), "replay", "replay");
        // Nothing waits inside a transaction, nor here.
        session.nesting = 1;
        let mut out = Out::new(Proto::Resp2);
        let mut words = Vec::new();
        let (mut applied, mut space) = (0, 0);
        for effect in Reader::new(record) {
            words.clear();
            words.extend(effect?.args());
            if let [word, number] = words.as_slice()
                && *word == SELECT
            {
                space = self.space_to_replay(number)?;
                continue;
            }
            let (now_ms, request) = split_time(&words);
            let args = Args::from_slices(request);
            let command = find(&self.server.registry.table, &args)?;
            let is_wanted = match only_tag(command, &args)? {
                Some(tag) => wanted(EffectOn::Tag(&tag_name(space, tag))),
                None if command.spec.name == "SWAPDB" => wanted(EffectOn::Databases),
                None => wanted(EffectOn::Everything),
            };
            if !is_wanted {
                continue;
            }
            out.buf.clear();
            let at = ReplayPoint { space, now_ms };
            self.apply(&mut session, command, args, at, &mut out)?;
            applied += 1;
        }
        Ok(applied)
    }

    /// Reads the number of a space that effects are about.
    fn space_to_replay(&self, text: &[u8]) -> Result<usize, ReplayError> {
        let count = self.server.keyspace.databases.count();
        let number = parse_i64(text).and_then(|number| usize::try_from(number).ok());
        let number = number.ok_or(Corrupt { at: 0 })?;
        if number < count {
            Ok(number)
        } else {
            Err(ReplayError::NoSuchDatabase { number, count })
        }
    }

    fn apply(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
        at: ReplayPoint,
        out: &mut Out,
    ) -> Result<(), ReplayError> {
        let scope = self.scope(command, &args, session);
        let locked = self
            .server
            .keyspace
            .shards
            .lock(scope)
            .map_err(|_| ReplayError::Busy)?;
        let turn = DbTurn {
            now_ms: self.now_ms(),
            notify: Events::NONE,
            counts_uses: self.turn.counts_uses,
            client_id: 0,
            database: 0,
        };
        let mut db = Db::new(
            &self.server.keyspace,
            &self.server.subscribers,
            locked,
            &self.stats.keyspace,
            &turn,
        );
        db.replay_at(at.now_ms);
        db.enter_space(at.space);
        let result = (self.server.registry.handler(command))(&mut Ctx {
            args,
            out,
            db: &mut db,
            session,
            executor: self,
            command,
        });
        let refused = |reply: String| ReplayError::Refused {
            command: command.full_name.clone(),
            reply,
        };
        result.map_err(|error| refused(error.to_string()))?;
        match out.buf.strip_prefix(b"-") {
            Some(reply) => Err(refused(String::from_utf8_lossy(reply).trim_end().to_owned())),
            None => Ok(()),
        }
    }
}

/// Where and when an effect happened.
#[derive(Clone, Copy)]
struct ReplayPoint {
    space: usize,
    now_ms: i64,
}

/// Takes the time off an effect that carries one. Any other needs none, and gets one before all expiries.
fn split_time<'w, 'a>(words: &'w [&'a [u8]]) -> (i64, &'w [&'a [u8]]) {
    match words {
        [at, when, request @ ..] if *at == AT => (parse_i64(when).unwrap_or(0), request),
        request => (0, request),
    }
}

fn find(table: &'static CommandTable, args: &Args<'_>) -> Result<&'static Command, ReplayError> {
    let unknown = || {
        let name = args.get(0).unwrap_or_default();
        ReplayError::UnknownCommand(String::from_utf8_lossy(name).into_owned())
    };
    let command = resolve(table, args).map_err(|_| unknown())?;
    if command.spec.accepts(args.len()) {
        Ok(command)
    } else {
        Err(unknown())
    }
}

/// Returns the hash tag of an effect's keys; nothing when it has no key.
fn only_tag<'a>(command: &Command, args: &Args<'a>) -> Result<Option<&'a [u8]>, ReplayError> {
    let several = || ReplayError::SeveralTags(command.full_name.clone());
    let (mut tag, mut one) = (None, true);
    let found = each_key(command.spec, args, |at, _| {
        let this = args.get(at).map(hash_tag);
        one &= tag.is_none() || tag == this;
        tag = this;
    });
    match (found, one) {
        (Ok(()), true) => Ok(tag),
        _ => Err(several()),
    }
}
