//! Goes on with the clients whose SUBSCRIBE waits for what nodes have to confirm, or fails them.

use nagaya_exec::dispatch::Executed;
use nagaya_exec::executor::Executor;
use nagaya_reactor::Key;
use nagaya_resp::{Frame, Limits, Out, RequestParser, parse_frame};

use super::{Subscriptions, Topic, Waiting, events_topic};
use crate::proxy::env::Env;
use crate::proxy::model::sessions::Sessions;
use crate::proxy::upstream::Upstream;

impl Subscriptions {
    /// Processes a message or a confirmation on a connection for events.
    pub(super) fn on_event_message(
        &mut self,
        executor: &mut Executor<'_>,
        upstream: &Upstream,
        sessions: &mut Sessions,
        env: &Env<'_>,
        connection: Key,
        reply: &[u8],
    ) {
        match parse_frame(reply) {
            Ok(Some((Frame::Array(items) | Frame::Push(items), _))) => {
                let is_confirmed = self.events.on_message(env, sessions, connection, &items);
                if is_confirmed && self.events.is_live(upstream) {
                    self.confirm_all(executor, sessions, &events_topic());
                }
            }
            Ok(Some((Frame::Error(text), _))) => {
                let reason = String::from_utf8_lossy(&text).into_owned();
                tracing::warn!(reason, "a node refuses to tell of changed keys");
                self.refuse_events(sessions, &reason);
            }
            _ => {}
        }
    }

    /// Goes on with the clients that waited for a topic only.
    pub(super) fn confirm_all(
        &mut self,
        executor: &mut Executor<'_>,
        sessions: &mut Sessions,
        topic: &Topic,
    ) {
        let waiting = self.waiting.iter_mut();
        let ready = waiting.filter_map(|(client, waiting)| {
            let missing = &mut waiting.missing;
            (missing.remove(topic) && missing.is_empty()).then_some(*client)
        });
        let ready: Vec<Key> = ready.collect();
        for client in ready {
            self.confirm(executor, sessions, client);
        }
    }

    /// Refuses the clients that wait for notifications of changed keys.
    pub(super) fn refuse_events(&mut self, sessions: &mut Sessions, reason: &str) {
        let waiting = self.waiting.iter();
        let asked = waiting.filter(|(_, waiting)| waiting.missing.contains(&events_topic()));
        let asked: Vec<Key> = asked.map(|(client, _)| *client).collect();
        for client in asked {
            self.refuse(sessions, client, reason);
        }
    }

    /// Runs the SUBSCRIBE of a client on our own registry, now that we are subscribed.
    pub(super) fn confirm(&mut self, executor: &mut Executor<'_>, sessions: &mut Sessions, client: Key) {
        let Some(Waiting { request, .. }) = self.waiting.remove(&client) else {
            return;
        };
        let Some(session) = sessions.get_mut(client) else {
            return;
        };
        let mut parser = RequestParser::default();
        if parser.parse(&request, &Limits::default()).is_ok() {
            let mut out = Out::new(session.client.proto());
            let args = parser.args(&request);
            if executor.execute(&mut session.client, args, &mut out) == Executed::Done {
                session.append_reply(&out.buf);
            }
        }
        sessions.mark(client);
        sessions.release(client);
    }

    pub(super) fn refuse(&mut self, sessions: &mut Sessions, client: Key, reason: &str) {
        self.forget_client(client);
        if let Some(session) = sessions.get_mut(client) {
            session.append_reply(format!("-{reason}\r\n").as_bytes());
            sessions.mark(client);
            sessions.release(client);
        }
    }
}
