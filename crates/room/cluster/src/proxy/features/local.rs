//! Commands that are answered here: they concern the connection, the command table or our settings.

use nagaya_exec::dispatch::Executed;
use nagaya_exec::executor::Executor;
use nagaya_resp::Out;

use crate::proxy::model::request::{Handled, Request};
use crate::proxy::model::session::Session;

/// Runs a command on the engine without data.
pub(crate) fn answer(executor: &mut Executor<'_>, session: &mut Session, request: &Request<'_>) -> Handled {
    let mut out = Out::new(session.client.proto());
    let executed = executor.execute(&mut session.client, request.args, &mut out);
    if executed != Executed::Done {
        return Handled::TooEarly;
    }
    session.append_reply(&out.buf);
    session.closing |= session.client.close_after_reply;
    Handled::Done
}

/// As [`answer`], for a command that changes the connection under requests that are under way.
pub(crate) fn answer_in_turn(
    executor: &mut Executor<'_>,
    session: &mut Session,
    request: &Request<'_>,
) -> Handled {
    if session.ring.is_empty() {
        answer(executor, session, request)
    } else {
        Handled::TooEarly
    }
}
