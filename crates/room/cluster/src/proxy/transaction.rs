//! MULTI, EXEC and DISCARD.
//!
//! Commands are queued here, with the same checks and replies as in Redis, and sent as
//! one burst to the node of their tag (see [`super::burst`] and [`super::watch`]).

use nagaya_commands::dispatch::Executed;
use nagaya_resp::{ArgVec, Out};

use super::aim::{Aim, Reach, Refusal};
use super::burst::{Burst, encoded, nil_array};
use super::flight::{Held, Origin};
use super::front::{Request, Seen, is_not_for_transactions};
use super::routes::Route;
use super::session::{Hold, Session};
use super::slab::Key;
use super::slots::slot_of_tag;
use super::worker::Worker;

/// What MULTI has collected.
#[derive(Default)]
pub(crate) struct Queue {
    commands: Vec<Queued>,
    /// A command was refused: EXEC will abort.
    pub(crate) broken: bool,
    /// The commands' keys do not belong together: EXEC will say so.
    crosses: bool,
    tag: Option<Vec<u8>>,
    slot: Option<u16>,
    writes: Vec<Vec<u8>>,
}

enum Queued {
    /// For the node, as it came.
    Sent(Vec<u8>),
    /// For ourselves.
    Here(ArgVec),
    /// What it replies is clear.
    Told(&'static [u8]),
}

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

    fn enqueue_in(&self, queue: &mut Queue, request: &Request<'_>, route: Route) -> Option<String> {
        const NOT_ALLOWED: &str = "ERR Command not allowed inside a transaction";
        if is_not_for_transactions(request.command) {
            return Some(NOT_ALLOWED.to_owned());
        }
        let sent = || Queued::Sent(request.bytes.to_vec());
        match route {
            Route::Keys | Route::Split(_) | Route::Blocking => {
                match self.rules.aim(request.command, &request.args) {
                    Ok(aim) => queue.add_aim(&aim, self.rules.reach),
                    Err(refusal) => return Some(refusal.text()),
                }
                queue.commands.push(sent());
            }
            Route::Script(script) => {
                let bytes = match self.guarded_for_transaction(request, script) {
                    Ok(bytes) => bytes,
                    Err(text) => return Some(text),
                };
                match self.rules.aim(request.command, &request.args) {
                    Ok(aim) => queue.add_aim(&aim, self.rules.reach),
                    Err(refusal) => return Some(refusal.text()),
                }
                queue.commands.push(Queued::Sent(bytes));
            }
            Route::ShardPublish => {
                let channel = request.args.get(1).unwrap_or_default();
                let slot = slot_of_tag(nagaya_tiering::tag::tag_of(channel));
                queue.add_slot(slot, self.rules.reach);
                queue.commands.push(sent());
            }
            Route::Anywhere | Route::Publish => queue.commands.push(sent()),
            Route::Here => queue.commands.push(Queued::Here(ArgVec::from(&request.args))),
            Route::Unwatch => queue.commands.push(Queued::Told(b"+OK\r\n")),
            Route::Refused(text) => return Some(text.to_owned()),
            _ => return Some(NOT_ALLOWED.to_owned()),
        }
        None
    }

    pub(super) fn exec(&mut self, session: &mut Session, request: &Request<'_>) -> Seen {
        if session.queue.is_none() {
            self.reply_error(session, "ERR EXEC without MULTI");
            return Seen::Done;
        }
        if session.watch.is_some() && !session.ring.is_empty() {
            return Seen::TooEarly;
        }
        let Some(queue) = session.queue.take() else {
            return Seen::Done;
        };
        let watch = session.watch.as_ref();
        let crosses = queue.crosses
            || watch.is_some_and(|watch| match self.rules.reach {
                Reach::OneTag => queue.tag.as_ref().is_some_and(|tag| *tag != watch.tag),
                Reach::OneSlot => queue.slot.is_some_and(|slot| slot != watch.slot),
                Reach::Anywhere => false,
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
            return Seen::Done;
        }
        self.begin_burst(session, request.client, *queue);
        Seen::Done
    }

    fn begin_burst(&mut self, session: &mut Session, client: Key, queue: Queue) {
        let (mut requests, mut told) = (vec![encoded(&[b"MULTI"])], Vec::new());
        for (place, command) in queue.commands.into_iter().enumerate() {
            match command {
                Queued::Sent(bytes) => requests.push(bytes),
                Queued::Told(reply) => told.push((place, reply.to_vec())),
                Queued::Here(args) => {
                    let mut out = Out::new(session.client.proto());
                    let executed = self.core.execute(&mut session.client, args.as_args(), &mut out);
                    debug_assert_eq!(executed, Executed::Done, "commands that run here do not wait");
                    told.push((place, out.buf));
                }
            }
        }
        let trip = self.client_trip(session, client);
        if requests.len() == 1 && session.watch.is_none() {
            let mut reply = format!("*{}\r\n", told.len()).into_bytes();
            told.iter()
                .for_each(|(_, element)| reply.extend_from_slice(element));
            let Origin::Client { place, .. } = trip.origin else {
                return;
            };
            return session.fill(place, &reply);
        }
        requests.push(encoded(&[b"EXEC"]));
        let watch = session.watch.as_ref();
        let burst = self.bursts.insert(Box::new(Burst {
            trip,
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
            trouble: None,
        }));
        if session.watch.is_some() {
            session.hold = Hold::Busy;
            return self.send_soon(Held::Burst(burst));
        }
        self.send_burst(burst);
    }
}

impl Queue {
    fn add_aim(&mut self, aim: &Aim<'_>, reach: Reach) {
        let Some(tag) = aim.tag else {
            return;
        };
        match &self.tag {
            Some(known) => self.crosses |= reach == Reach::OneTag && known != tag,
            None => self.tag = Some(tag.to_vec()),
        }
        self.add_slot(aim.slot, reach);
        let writes = aim.writes.as_slice();
        self.writes.extend(writes.iter().map(|key| key.to_vec()));
    }

    fn add_slot(&mut self, slot: u16, reach: Reach) {
        let known = *self.slot.get_or_insert(slot);
        self.crosses |= known != slot && reach != Reach::Anywhere;
    }
}
