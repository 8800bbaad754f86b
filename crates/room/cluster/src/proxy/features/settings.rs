//! CONFIG GET and SET: this server's own settings, and the one that is the nodes'.

use nagaya_exec::dispatch::Executed;
use nagaya_exec::executor::Executor;
use nagaya_resp::{Args, Out};

use crate::proxy::model::reply::encoded;
use crate::proxy::model::request::{Handled, Request};
use crate::proxy::model::session::Session;

/// Which keyspace notifications there are. The nodes have to make them.
const NOTIFY: &[u8] = b"notify-keyspace-events";

/// What becomes of a request about settings.
pub(crate) enum Settings {
    /// It is answered.
    Answered(Handled),
    /// Any node answers it.
    AnyNode,
    /// Every node has to be sent this.
    EveryNode(Vec<u8>),
}

/// Returns whether a request sets a setting of the nodes.
pub(crate) fn concerns_nodes(args: &Args<'_>) -> bool {
    args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"set")) && notify_value(args).is_some()
}

/// Runs a request on this server's own settings, and tells what is left to do. Whatever is wrong with it is found
/// before a node is asked.
pub(crate) fn start(executor: &mut Executor<'_>, session: &mut Session, request: &Request<'_>) -> Settings {
    let is_get = request.command.full_name == "config|get";
    if is_get && request.args.len() == 3 && request.args[2].eq_ignore_ascii_case(NOTIFY) {
        return Settings::AnyNode;
    }
    let value = notify_value(&request.args).filter(|_| !is_get);
    let mut out = Out::new(session.client.proto());
    if executor.execute(&mut session.client, request.args, &mut out) != Executed::Done {
        return Settings::Answered(Handled::TooEarly);
    }
    match value {
        Some(value) if out.buf.first() != Some(&b'-') => {
            Settings::EveryNode(encoded(&[b"CONFIG", b"SET", NOTIFY, value]))
        }
        _ => {
            session.append_reply(&out.buf);
            Settings::Answered(Handled::Done)
        }
    }
}

/// Returns the value that CONFIG SET gives the nodes' setting.
fn notify_value<'a>(args: &Args<'a>) -> Option<&'a [u8]> {
    let mut names = (2..args.len()).step_by(2);
    let at = names.find(|at| {
        args.get(*at)
            .is_some_and(|name| name.eq_ignore_ascii_case(NOTIFY))
    })?;
    args.get(at + 1)
}
