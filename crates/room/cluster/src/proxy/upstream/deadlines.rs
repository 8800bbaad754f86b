//! Gives up connections that take too long to answer.

use std::sync::atomic::Ordering;

use nagaya_reactor::Key;

use super::Upstream;
use super::node_connection::State;
use crate::proxy::env::Env;
use crate::proxy::model::in_flight::{Lane, Origin};
use crate::proxy::model::reply::encoded;

impl Upstream {
    /// Gives up connections whose replies or whose handshakes take too long.
    pub(crate) fn check_deadlines(&mut self, env: &Env<'_>) {
        let reply_us = env.shared.config.reply_limit.as_micros() as u64;
        let connect_us = env.shared.config.connect_limit.as_micros() as u64;
        for key in self.connections.keys() {
            let Some(connection) = self.connections.get(key) else {
                continue;
            };
            let is_late = match (connection.state, connection.in_flight.front()) {
                (State::Handshake, _) => connection.opened_us + connect_us < env.now_us,
                (State::Ready, None) => false,
                // A blocking command waits on purpose and has a deadline of its own.
                (State::Ready, Some(first)) if matches!(first.delivery.origin, Origin::Blocked { .. }) => {
                    false
                }
                (State::Ready, Some(first)) => {
                    first.queued_us.max(connection.ready_us) + reply_us < env.now_us
                }
            };
            if is_late {
                self.lose(env, key, "no answer in time");
            }
        }
        let nodes = self.nodes.list.iter();
        let open = nodes.filter(|node| node.shared[0].is_some()).count();
        env.shared.open_nodes.store(open, Ordering::Relaxed);
    }

    /// Pings a connection on which only the node speaks, if it has been silent for this long, and gives it up without an answer.
    pub(crate) fn check_silence(&mut self, env: &Env<'_>, key: Key, silence_us: u64) {
        let reply_us = env.shared.config.reply_limit.as_micros() as u64;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.state != State::Ready || connection.heard_us + silence_us > env.now_us {
            return;
        }
        if connection.pinged_us <= connection.heard_us {
            connection.pinged_us = env.now_us;
            self.send_raw(key, &encoded(&[b"PING"]));
        } else if connection.pinged_us + reply_us < env.now_us {
            self.lose(env, key, "no answer in time");
        }
    }

    /// Pings the connections on which nodes tell of changed keys and that have been silent for this long: an
    /// answer that does not come ends them.
    pub(crate) fn check_telling(&mut self, env: &Env<'_>, silence_us: u64) {
        for node in 0..self.nodes.list.len() {
            let Some(key) = self.nodes.list[node].shared[Lane::TELLING.number()] else {
                continue;
            };
            let is_silent = self.connections.get(key).is_some_and(|connection| {
                connection.state == State::Ready
                    && connection.in_flight.is_empty()
                    && connection.heard_us + silence_us < env.now_us
            });
            if is_silent {
                let delivery = env.delivery(Origin::Discard, true);
                self.send(env, key, &encoded(&[b"PING"]), env.in_flight(delivery, None));
            }
        }
    }
}
