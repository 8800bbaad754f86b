//! The user that a connection acts for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_command_spec::table::{Command, CommandTable};
use nagaya_connections::acl::check::{Denied, Reason, ScriptKeys};
use nagaya_connections::acl::rules::Rules;
use nagaya_connections::acl::{Account, Acl, DEFAULT_USER};
use nagaya_resp::Args;

use super::Session;

/// Who a connection acts for, with the rules as last seen.
#[derive(Default)]
pub struct Identity {
    /// The state of the users at which this connection is known to be allowed everything.
    pub(crate) free_at: u64,
    /// The state at which the rest of this was worked out; zero for never.
    pub(crate) seen_at: u64,
    pub(crate) account: Option<Arc<Account>>,
    pub(crate) rules: Option<Arc<Rules>>,
    pub(crate) authenticated: bool,
    /// `default` asks for a password that this connection has not given.
    pub(crate) must_authenticate: bool,
    /// The user was removed.
    pub(crate) removed: bool,
}

impl Identity {
    /// Looks again at the rules if they may have changed.
    pub(crate) fn refresh(&mut self, acl: &Acl, version: u64) {
        if self.seen_at == version {
            return;
        }
        let default = acl.default_account();
        let account = self.account.get_or_insert_with(|| {
            // The first look: a connection is let in as `default` if nothing is asked of it.
            self.authenticated = default.rules().admit_strangers();
            Arc::clone(default)
        });
        let rules = account.rules();
        self.must_authenticate = !self.authenticated && !default.rules().admit_strangers();
        self.removed = account.removed.load(Ordering::Acquire);
        let free = rules.allow_everything() && !self.must_authenticate && !self.removed;
        self.free_at = if free { version } else { 0 };
        self.rules = Some(rules);
        self.seen_at = version;
    }

    pub(crate) fn check(&self, command: &Command, args: &Args<'_>) -> Result<(), Denied> {
        match &self.rules {
            Some(rules) => rules.check(command, args),
            None => Err(Denied {
                reason: Reason::Command,
                at: 0,
            }),
        }
    }
}

impl Session {
    /// Makes the connection act for a user from now on.
    pub fn act_for(&mut self, account: Arc<Account>) {
        self.shared
            .set_user(String::from_utf8_lossy(&account.name).into());
        *self.shared.account.lock() = Some(Arc::clone(&account)).filter(|account| !account.is_default());
        self.identity = Identity {
            account: Some(account),
            authenticated: true,
            ..Identity::default()
        };
    }

    /// Makes the connection a new one again: `default`, let in only if nothing is asked of it.
    pub fn leave_account(&mut self) {
        self.shared.set_user("default".into());
        *self.shared.account.lock() = None;
        self.identity = Identity::default();
    }

    /// Lists what a script may not call that this request runs; the request was admitted just now.
    pub fn denied_in_scripts<'t>(
        &self,
        table: &'t CommandTable,
        command: &Command,
        args: &Args<'_>,
    ) -> Vec<&'t str> {
        match &self.identity.rules {
            Some(rules) if !rules.allow_everything() => rules.denied_in_scripts(table, command, args),
            _ => Vec::new(),
        }
    }

    /// Returns which keys of a tag a script may use that this request runs, besides those it declares; the
    /// request was admitted just now.
    pub fn keys_in_scripts(&self, command: &Command, args: &Args<'_>, tag: &[u8]) -> ScriptKeys {
        match &self.identity.rules {
            Some(rules) if !rules.allow_everything() => rules.keys_in_scripts(command, args, tag),
            _ => ScriptKeys::All,
        }
    }

    /// Returns the name of the user that the connection acts for.
    pub fn user_name(&self) -> &[u8] {
        self.identity
            .account
            .as_ref()
            .map_or(DEFAULT_USER, |account| &account.name)
    }
}
