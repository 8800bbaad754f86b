//! INFO: this server's own sections, with the keys of all nodes and of the cold tier.

use nagaya_exec::dispatch::Executed;
use nagaya_exec::executor::Executor;
use nagaya_resp::Out;

use crate::proxy::env::Env;
use crate::proxy::model::merge::KEYSPACE;
use crate::proxy::model::request::Request;
use crate::proxy::model::session::Session;

/// This server's own part of an INFO.
pub(crate) enum Info {
    /// All that the client gets.
    Whole,
    /// The reply, to be completed by the line of the keyspace.
    WithKeyspace(Vec<u8>),
    /// The request has to wait for those before it.
    TooEarly,
}

/// Writes this server's own part; replies with it if there is nothing to add.
pub(crate) fn begin(executor: &mut Executor<'_>, session: &mut Session, request: &Request<'_>) -> Info {
    let mut out = Out::new(session.client.proto());
    if executor.execute(&mut session.client, request.args, &mut out) != Executed::Done {
        return Info::TooEarly;
    }
    if out.buf.windows(KEYSPACE.len()).any(|part| part == KEYSPACE) {
        return Info::WithKeyspace(out.buf);
    }
    session.append_reply(&out.buf);
    Info::Whole
}

/// Returns the number of keys in both tiers, if a recent one will do: not for a client that asks for the
/// keyspace by name.
pub(crate) fn recent_count(env: &Env<'_>, request: &Request<'_>) -> Option<u64> {
    let mut sections = request.args.iter().skip(1);
    if sections.any(|section| section.eq_ignore_ascii_case(b"keyspace")) {
        return None;
    }
    env.shared.key_count.recent(env.now_us)
}
