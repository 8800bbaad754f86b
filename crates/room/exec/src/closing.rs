//! Ends connections whose user is gone or may no longer listen to what they listen to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_connections::acl::Account;
use nagaya_connections::acl::rules::Rules;
use nagaya_connections::acl::selector::Selector;
use nagaya_connections::client::{Client, Message};
use nagaya_connections::pubsub::Kind;

use crate::server::Server;
use crate::session::Session;

/// Ends the connections of users that were removed. The one that asked for it gets its reply first.
pub fn close_clients_of_the_removed(server: &Server, asker: &mut Session) {
    let is_removed = |client: &Client| {
        let account = client.account.lock();
        account
            .as_ref()
            .is_some_and(|account| account.removed.load(Ordering::Acquire))
    };
    asker.close_after_reply |= is_removed(&asker.shared);
    for client in server.subscribers.clients.all() {
        if client.id != asker.id() && is_removed(&client) {
            client.deliver(Message::Close);
        }
    }
}

/// Ends the connections of a user that listen to what its new rules no longer allow.
pub fn close_listeners_without_rights(server: &Server, account: &Arc<Account>, before: &Rules) {
    let rules = account.rules();
    if still_allows_all(&rules, before) {
        return;
    }
    let mut suspects: Vec<Arc<Client>> = Vec::new();
    for kind in Kind::ALL {
        let is_pattern = kind == Kind::Pattern;
        server.subscribers.pubsub.each(kind, |name, listeners| {
            if !rules
                .selectors
                .iter()
                .any(|selector| selector.allows_channel(name, is_pattern))
            {
                suspects.extend(listeners.values().cloned());
            }
        });
    }
    for client in suspects {
        let acts_for_it = match &*client.account.lock() {
            Some(theirs) => Arc::ptr_eq(theirs, account),
            None => account.is_default(),
        };
        if acts_for_it {
            client.deliver(Message::Close);
        }
    }
}

/// Tells whether every channel rule from before is still there, so that nobody need be looked at.
fn still_allows_all(rules: &Rules, before: &Rules) -> bool {
    let all = |rules: &Rules| rules.selectors.iter().any(|selector| selector.all_channels);
    let channels = |selector: &Selector| selector.channels.clone();
    let kept: Vec<Vec<u8>> = rules.selectors.iter().flat_map(channels).collect();
    let keeps = |selector: &Selector| selector.channels.iter().all(|channel| kept.contains(channel));
    all(rules) || !all(before) && before.selectors.iter().all(keeps)
}
