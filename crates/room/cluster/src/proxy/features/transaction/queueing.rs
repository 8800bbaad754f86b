//! Collects the commands of a transaction.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::NO_MULTI;
use nagaya_commands::table;
use nagaya_exec::dispatch::{Executed, resolve};
use nagaya_exec::executor::Executor;
use nagaya_exec::session::Session as ExecSession;
use nagaya_reactor::Key;
use nagaya_resp::{ArgVec, Limits, Out, Parsed, RequestParser};
use nagaya_tiering::tag::tag_of;

use super::sending::{Transaction, Transactions, nil_array};
use crate::proxy::env::Env;
use crate::proxy::features::{scripts, settings};
use crate::proxy::forwarder::Forwarder;
use crate::proxy::model::client_state::{QueuedCommand, TransactionQueue};
use crate::proxy::model::in_flight::{Origin, Pending};
use crate::proxy::model::layout::slot_of_tag;
use crate::proxy::model::reply::encoded;
use crate::proxy::model::request::{Handled, Request};
use crate::proxy::model::routes::Route;
use crate::proxy::model::session::{ReadPause, Session};
use crate::proxy::model::sessions::Sessions;
use crate::proxy::model::target::{KeyScope, Refusal};

const NOT_ALLOWED: &str = "ERR Command not allowed inside a transaction";

/// Begins a transaction.
pub(crate) fn multi(session: &mut Session) {
    if session.queue.is_some() {
        return session.reply_error("ERR MULTI calls can not be nested");
    }
    session.queue = Some(Box::default());
    session.reply(b"+OK\r\n");
}

/// Drops a transaction, and what is watched.
pub(crate) fn discard(io: &mut Forwarder, session: &mut Session) {
    if session.queue.take().is_none() {
        return session.reply_error("ERR DISCARD without MULTI");
    }
    io.upstream.close(session.end_watch());
    session.reply(b"+OK\r\n");
}

/// Queues a command of a client that is putting a transaction together.
pub(crate) fn enqueue(env: &Env<'_>, session: &mut Session, request: &Request<'_>, route: Route) {
    let Some(queue) = &mut session.queue else {
        return;
    };
    match add(env, &session.client, queue, request, route) {
        Ok(()) => session.reply(b"+QUEUED\r\n"),
        Err(text) => {
            queue.broken = true;
            session.reply_error(&text);
        }
    }
}

/// Adds a command to a transaction; fails with the text of an error reply.
fn add(
    env: &Env<'_>,
    client: &ExecSession,
    queue: &mut TransactionQueue,
    request: &Request<'_>,
    route: Route,
) -> Result<(), String> {
    if request.command.spec.flags.has(NO_MULTI) {
        return Err(NOT_ALLOWED.to_owned());
    }
    let key_scope = env.rules.key_scope;
    let add_keys = |queue: &mut TransactionQueue| {
        let target = env.rules.target(request.command, &request.args);
        let target = target.map_err(|refusal| refusal.text())?;
        queue.add_target(&target, key_scope);
        Ok::<(), String>(())
    };
    let sent = || QueuedCommand::Sent(request.bytes.to_vec());
    let command = match route {
        Route::Keys | Route::Split(_) | Route::Blocking => {
            add_keys(queue)?;
            sent()
        }
        Route::Script(script) => {
            let bytes = scripts::guarded_for_transaction(env, client, request, script)?;
            add_keys(queue)?;
            QueuedCommand::Sent(bytes)
        }
        Route::ShardPublish => {
            let channel = request.args.get(1).unwrap_or_default();
            queue.add_slot(slot_of_tag(tag_of(channel)), key_scope);
            sent()
        }
        // Within a transaction nobody waits: a node tells how many replicas have what was written so far.
        Route::Anywhere | Route::Publish | Route::Replicas => sent(),
        Route::Settings if settings::concerns_nodes(&request.args) => return Err(NOT_ALLOWED.to_owned()),
        Route::Here | Route::Info | Route::Settings => QueuedCommand::Here(ArgVec::from(&request.args)),
        Route::Unwatch => QueuedCommand::Answered(b"+OK\r\n"),
        Route::Refused(text) => return Err(text.to_owned()),
        _ => return Err(NOT_ALLOWED.to_owned()),
    };
    queue.commands.push(command);
    Ok(())
}

/// Checks the queued commands for nodes once more: rules may have changed since. Those that are answered here
/// are checked when they run.
fn check_again(
    executor: &mut Executor<'_>,
    env: &Env<'_>,
    session: &mut Session,
    queue: &TransactionQueue,
) -> Result<(), CommandError> {
    if executor.may_do_everything(&session.client) {
        return Ok(());
    }
    let mut parser = RequestParser::default();
    for command in &queue.commands {
        let QueuedCommand::Sent(bytes) = command else {
            continue;
        };
        let limits = Limits {
            bulk_bytes_max: bytes.len(),
            query_bytes_max: bytes.len(),
            ..Limits::default()
        };
        let Ok(Parsed::Complete { .. }) = parser.parse(bytes, &limits) else {
            return Err(CommandError::err("a queued command cannot be read again"));
        };
        let args = parser.args(bytes);
        let command = resolve(&table::registry().table, &args)?;
        let asked = scripts::as_asked(env, command, &args);
        let asked = asked.as_ref().map_or(args, ArgVec::as_args);
        executor.check_rights_at_exec(&mut session.client, command, &asked)?;
        if !scripts::are_rights_the_same(env, &session.client, command, (&args, &asked)) {
            return Err(CommandError::err(
                "what the user may do in scripts has changed since the script was queued",
            ));
        }
    }
    Ok(())
}

impl Transactions {
    /// Runs the transaction that a client has put together.
    pub(crate) fn exec(
        &mut self,
        executor: &mut Executor<'_>,
        io: &mut Forwarder,
        sessions: &mut Sessions,
        env: &Env<'_>,
        session: &mut Session,
        request: &Request<'_>,
    ) -> Handled {
        if session.queue.is_none() {
            session.reply_error("ERR EXEC without MULTI");
            return Handled::Done;
        }
        if session.watch.is_some() && !session.ring.is_empty() {
            return Handled::TooEarly;
        }
        let Some(queue) = session.queue.take() else {
            return Handled::Done;
        };
        let watch = session.watch.as_ref();
        let crosses = queue.crosses
            || watch.is_some_and(|watch| match env.rules.key_scope {
                KeyScope::OneTag => queue.tag.as_ref().is_some_and(|tag| *tag != watch.tag),
                KeyScope::OneSlot => queue.slot.is_some_and(|slot| slot != watch.slot),
                KeyScope::Anywhere | KeyScope::Tags => false,
            });
        let is_lost = watch.is_some_and(|watch| watch.lost);
        if queue.broken || crosses || is_lost {
            io.upstream.close(session.end_watch());
            if queue.broken {
                session.reply_error("EXECABORT Transaction discarded because of previous errors.");
            } else if crosses {
                session.reply_error(&Refusal::CrossSlot.text());
            } else {
                let nil = nil_array(session.client.proto());
                session.reply(nil);
            }
            return Handled::Done;
        }
        if let Err(denied) = check_again(executor, env, session, &queue) {
            io.upstream.close(session.end_watch());
            session.reply_error(&format!("EXECABORT Transaction discarded because of: {denied}"));
            return Handled::Done;
        }
        if let Some(key) = self.begin(executor, env, session, request, *queue) {
            if session.watch.is_some() {
                session.pause = ReadPause::Busy;
                io.upstream.send_soon(env, Pending::Transaction(key));
            } else {
                session.pause = self.pause_behind(io, env, key);
                self.send(io, sessions, env, key);
            }
        }
        Handled::Done
    }

    /// Makes a transaction of queued commands, after running those that are answered here. One that has
    /// nothing for a node is answered at once.
    fn begin(
        &mut self,
        executor: &mut Executor<'_>,
        env: &Env<'_>,
        session: &mut Session,
        request: &Request<'_>,
        queue: TransactionQueue,
    ) -> Option<Key> {
        let (mut requests, mut answered) = (vec![encoded(&[b"MULTI"])], Vec::new());
        for (place, command) in queue.commands.into_iter().enumerate() {
            match command {
                QueuedCommand::Sent(bytes) => requests.push(bytes),
                QueuedCommand::Answered(reply) => answered.push((place, reply.to_vec())),
                QueuedCommand::Here(args) => {
                    let mut out = Out::new(session.client.proto());
                    let executed = executor.execute(&mut session.client, args.as_args(), &mut out);
                    debug_assert_eq!(executed, Executed::Done, "commands that run here do not wait");
                    answered.push((place, out.buf));
                }
            }
        }
        if let Some(slot) = queue
            .slot
            .filter(|_| queue.registers_itself || !queue.writes.is_empty())
        {
            session.written_slots.note_slot(slot);
        }
        let delivery = session.next_delivery(request.client, env.give_up_us());
        if requests.len() == 1 && session.watch.is_none() {
            let mut reply = format!("*{}\r\n", answered.len()).into_bytes();
            let elements = answered.iter().map(|(_, element)| element);
            elements.for_each(|element| reply.extend_from_slice(element));
            if let Origin::Client { place, .. } = delivery.origin {
                session.fill(place, &reply);
            }
            return None;
        }
        requests.push(encoded(&[b"EXEC"]));
        let watch = session.watch.as_ref();
        let mut others = queue.others;
        if let Some(watch) = watch.filter(|_| env.rules.key_scope == KeyScope::Tags) {
            others.push(watch.tag.clone());
            others.extend(watch.others.iter().cloned());
        }
        Some(self.add(Transaction {
            delivery,
            client: request.client,
            slot: queue.slot.or(watch.map(|watch| watch.slot)),
            tag: queue.tag.or(watch.map(|watch| watch.tag.clone())),
            others,
            writes: queue.writes,
            registers_itself: queue.registers_itself,
            missing: requests.len(),
            requests,
            answered,
            pinned: watch.and_then(|watch| watch.connection),
            goes_first: false,
            asked: None,
            redirect: None,
        }))
    }
}
