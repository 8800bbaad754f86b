//! MULTI, EXEC and DISCARD.
//!
//! Commands are queued here, with the same checks and replies as in Redis, and sent as
//! one transaction to the node of their tag (see [`super::transaction`] and [`super::watch`]).

use nagaya_commands::dispatch::Executed;
use nagaya_resp::{ArgVec, Out};

use super::frontend::is_not_for_transactions;
use super::model::client_state::{QueuedCommand, TransactionQueue};
use super::model::in_flight::{Origin, Pending};
use super::model::layout::slot_of_tag;
use super::model::reply::encoded;
use super::model::request::{Handled, Request};
use super::model::routes::Route;
use super::model::session::{ReadPause, Session};
use super::model::target::{KeyScope, Refusal};
use super::slab::Key;
use super::transaction::{Transaction, nil_array};
use super::worker::Worker;

impl Worker<'_> {
    pub(super) fn multi(&mut self, session: &mut Session) {
        if session.queue.is_some() {
            return self.reply_error(session, "ERR MULTI calls can not be nested");
        }
        session.queue = Some(Box::default());
        self.reply(session, b"+OK\r\n");
    }

    pub(super) fn discard(&mut self, session: &mut Session) {
        if session.queue.take().is_none() {
            return self.reply_error(session, "ERR DISCARD without MULTI");
        }
        self.end_watch(session);
        self.reply(session, b"+OK\r\n");
    }

    /// Queues a command of a client that is putting a transaction together.
    pub(super) fn enqueue(&mut self, session: &mut Session, request: &Request<'_>, route: Route) {
        let Some(mut queue) = session.queue.take() else {
            return;
        };
        let refusal = self.enqueue_in(&mut queue, request, route);
        queue.broken |= refusal.is_some();
        session.queue = Some(queue);
        match refusal {
            None => self.reply(session, b"+QUEUED\r\n"),
            Some(text) => self.reply_error(session, &text),
        }
    }

    fn enqueue_in(
        &self,
        queue: &mut TransactionQueue,
        request: &Request<'_>,
        route: Route,
    ) -> Option<String> {
        const NOT_ALLOWED: &str = "ERR Command not allowed inside a transaction";
        if is_not_for_transactions(request.command) {
            return Some(NOT_ALLOWED.to_owned());
        }
        let sent = || QueuedCommand::Sent(request.bytes.to_vec());
        match route {
            Route::Keys | Route::Split(_) | Route::Blocking => {
                match self.rules.target(request.command, &request.args) {
                    Ok(target) => queue.add_target(&target, self.rules.key_scope),
                    Err(refusal) => return Some(refusal.text()),
                }
                queue.commands.push(sent());
            }
            Route::Script(script) => {
                let bytes = match self.guarded_for_transaction(request, script) {
                    Ok(bytes) => bytes,
                    Err(text) => return Some(text),
                };
                match self.rules.target(request.command, &request.args) {
                    Ok(target) => queue.add_target(&target, self.rules.key_scope),
                    Err(refusal) => return Some(refusal.text()),
                }
                queue.commands.push(QueuedCommand::Sent(bytes));
            }
            Route::ShardPublish => {
                let channel = request.args.get(1).unwrap_or_default();
                let slot = slot_of_tag(nagaya_tiering::tag::tag_of(channel));
                queue.add_slot(slot, self.rules.key_scope);
                queue.commands.push(sent());
            }
            Route::Anywhere | Route::Publish => queue.commands.push(sent()),
            Route::Here => queue
                .commands
                .push(QueuedCommand::Here(ArgVec::from(&request.args))),
            Route::Unwatch => queue.commands.push(QueuedCommand::Told(b"+OK\r\n")),
            Route::Refused(text) => return Some(text.to_owned()),
            _ => return Some(NOT_ALLOWED.to_owned()),
        }
        None
    }

    pub(super) fn exec(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        if session.queue.is_none() {
            self.reply_error(session, "ERR EXEC without MULTI");
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
            || watch.is_some_and(|watch| match self.rules.key_scope {
                KeyScope::OneTag => queue.tag.as_ref().is_some_and(|tag| *tag != watch.tag),
                KeyScope::OneSlot => queue.slot.is_some_and(|slot| slot != watch.slot),
                KeyScope::Anywhere => false,
            });
        let is_lost = watch.is_some_and(|watch| watch.lost);
        if queue.broken || crosses || is_lost {
            self.end_watch(session);
            if queue.broken {
                let text = "EXECABORT Transaction discarded because of previous errors.";
                self.reply_error(session, text);
            } else if crosses {
                self.reply_error(session, &Refusal::CrossSlot.text());
            } else {
                let nil = nil_array(session.client.proto());
                self.reply(session, nil);
            }
            return Handled::Done;
        }
        self.begin_transaction(session, request.client, *queue);
        Handled::Done
    }

    fn begin_transaction(&mut self, session: &mut Session, client: Key, queue: TransactionQueue) {
        let (mut requests, mut told) = (vec![encoded(&[b"MULTI"])], Vec::new());
        for (place, command) in queue.commands.into_iter().enumerate() {
            match command {
                QueuedCommand::Sent(bytes) => requests.push(bytes),
                QueuedCommand::Told(reply) => told.push((place, reply.to_vec())),
                QueuedCommand::Here(args) => {
                    let mut out = Out::new(session.client.proto());
                    let executed = self.core.execute(&mut session.client, args.as_args(), &mut out);
                    debug_assert_eq!(executed, Executed::Done, "commands that run here do not wait");
                    told.push((place, out.buf));
                }
            }
        }
        let delivery = self.client_delivery(session, client);
        if requests.len() == 1 && session.watch.is_none() {
            let mut reply = format!("*{}\r\n", told.len()).into_bytes();
            told.iter()
                .for_each(|(_, element)| reply.extend_from_slice(element));
            let Origin::Client { place, .. } = delivery.origin else {
                return;
            };
            return session.fill(place, &reply);
        }
        requests.push(encoded(&[b"EXEC"]));
        let watch = session.watch.as_ref();
        let transaction = self.transactions.insert(Box::new(Transaction {
            delivery,
            client,
            slot: queue.slot.or(watch.map(|watch| watch.slot)),
            tag: queue.tag.or(watch.map(|watch| watch.tag.clone())),
            writes: queue.writes,
            missing: requests.len(),
            requests,
            told,
            pinned: watch.and_then(|watch| watch.connection),
            goes_first: false,
            asked: None,
            redirect: None,
        }));
        if session.watch.is_some() {
            session.pause = ReadPause::Busy;
            return self.send_soon(Pending::Transaction(transaction));
        }
        self.send_transaction(transaction);
    }
}
