//! Who a connection acts for, and the check before each of its commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_resp::Args;

use super::check::{Denied, Reason};
use super::log::{Context, Entry};
use super::rules::Rules;
use super::{Account, Acl, DEFAULT_USER};
use crate::client::Client;
use crate::command_table::Command;
use crate::error::CommandError;
use crate::executor::Core;
use crate::spec::{NO_AUTH, NO_MULTI};

/// Who a connection acts for, with the rules as last seen.
#[derive(Default)]
pub(crate) struct Identity {
    /// The state of the users at which this connection is known to be allowed everything.
    free_at: u64,
    /// The state at which the rest of this was worked out; zero for never.
    seen_at: u64,
    account: Option<Arc<Account>>,
    rules: Option<Arc<Rules>>,
    authenticated: bool,
    /// `default` asks for a password that this connection has not given.
    must_authenticate: bool,
    /// The user was removed.
    removed: bool,
}

impl Identity {
    /// Looks again at the rules if they may have changed.
    fn refresh(&mut self, acl: &Acl, version: u64) {
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

    fn check(&self, command: &Command, args: &Args<'_>) -> Result<(), Denied> {
        match &self.rules {
            Some(rules) => rules.check(command, args),
            None => Err(Denied {
                reason: Reason::Command,
                at: 0,
            }),
        }
    }
}

impl Client {
    /// Makes the connection act for a user from now on.
    pub(crate) fn act_for(&mut self, account: Arc<Account>) {
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
    pub(crate) fn leave_account(&mut self) {
        self.shared.set_user("default".into());
        *self.shared.account.lock() = None;
        self.identity = Identity::default();
    }

    /// Returns the name of the user that the connection acts for.
    pub(crate) fn user_name(&self) -> &[u8] {
        self.identity
            .account
            .as_ref()
            .map_or(DEFAULT_USER, |account| &account.name)
    }
}

impl Core<'_> {
    /// Checks that a client may run a command with these arguments.
    #[inline]
    pub(crate) fn check_rights(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        if client.identity.free_at == self.turn.acl_version {
            return Ok(());
        }
        self.check_rights_closely(client, command, args)
    }

    #[cold]
    fn check_rights_closely(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        let checked = self.admit_user(client, command, args);
        if checked.is_err() {
            self.stats.commands[command.number].rejected.add(1);
        }
        checked
    }

    fn admit_user(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        client.identity.refresh(&self.server.acl, self.turn.acl_version);
        if client.identity.removed {
            client.close_after_reply = true;
            return Err(CommandError::coded("NOAUTH Authentication required."));
        }
        if client.identity.must_authenticate && !command.spec.flags.has(NO_AUTH) {
            return Err(CommandError::coded("NOAUTH Authentication required."));
        }
        let in_transaction = client.transaction.is_some();
        if in_transaction && command.spec.flags.has(NO_MULTI) {
            // The transaction refuses it with a better reason.
            return Ok(());
        }
        let Err(denied) = client.identity.check(command, args) else {
            return Ok(());
        };
        let context = if in_transaction {
            Context::Multi
        } else {
            Context::Toplevel
        };
        self.log_denied(client, command, args, denied, context);
        Err(refusal(denied, command))
    }

    /// Checks a queued command once more before EXEC runs it: rules may have changed since.
    #[inline]
    pub(crate) fn check_rights_at_exec(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        if client.identity.free_at == self.turn.acl_version {
            return Ok(());
        }
        client.identity.refresh(&self.server.acl, self.turn.acl_version);
        let Err(denied) = client.identity.check(command, args) else {
            return Ok(());
        };
        self.log_denied(client, command, args, denied, Context::Multi);
        let reason = match denied.reason {
            Reason::Command => "no permission to execute the command or subcommand",
            Reason::Key => "no permission to touch the specified keys",
            Reason::Channel => "no permission to access one of the channels used as arguments",
            Reason::Auth => "no permission",
        };
        Err(CommandError::coded(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
             call. This command is no longer allowed for the following reason: {reason}"
        )))
    }

    /// Checks a command that a script of this client calls; `Err` completes "The user executing the
    /// script".
    pub fn check_rights_in_script(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), &'static str> {
        if self.may_run(client, command, args) {
            return Ok(());
        }
        let Err(denied) = client.identity.check(command, args) else {
            return Ok(());
        };
        self.log_denied(client, command, args, denied, Context::Lua);
        Err(match denied.reason {
            Reason::Command => "can't run this command or subcommand",
            Reason::Key => "can't access at least one of the keys mentioned in the command arguments",
            Reason::Channel => "can't publish to the channel mentioned in the command",
            Reason::Auth => "lacking the permissions for the command",
        })
    }

    /// Tells whether a client may run a command, without a trace in the log (`redis.acl_check_cmd`).
    pub fn may_run(&mut self, client: &mut Client, command: &'static Command, args: &Args<'_>) -> bool {
        if client.identity.free_at == self.turn.acl_version {
            return true;
        }
        client.identity.refresh(&self.server.acl, self.turn.acl_version);
        client.identity.check(command, args).is_ok()
    }

    /// Tells whether a client may run a command that reads keys which its arguments do not name.
    pub(crate) fn may_read_all_keys(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &Args<'_>,
    ) -> bool {
        if client.identity.free_at == self.turn.acl_version {
            return true;
        }
        client.identity.refresh(&self.server.acl, self.turn.acl_version);
        let rules = client.identity.rules.as_ref();
        rules.is_some_and(|rules| rules.allow_reading_all_keys(command, args))
    }

    /// Tells whether a client has yet to authenticate before it may do anything, so that the sizes of
    /// its requests are to be limited.
    pub fn must_authenticate(&self, client: &mut Client) -> bool {
        if client.identity.free_at == self.turn.acl_version {
            return false;
        }
        client.identity.refresh(&self.server.acl, self.turn.acl_version);
        client.identity.must_authenticate
    }

    /// Tells whether a client has authenticated, or did not have to when it came.
    pub(crate) fn is_authenticated(&self, client: &mut Client) -> bool {
        client.identity.refresh(&self.server.acl, self.turn.acl_version);
        client.identity.authenticated
    }

    /// Logs a client in; wrong attempts are kept in the log.
    pub(crate) fn log_in(
        &mut self,
        client: &mut Client,
        args: &Args<'_>,
        command: &'static Command,
        (user, password): (&[u8], &[u8]),
    ) -> Result<(), CommandError> {
        let account = self.server.acl.account(user);
        if let Some(account) = account.filter(|account| account.rules().accept(password)) {
            client.act_for(account);
            return Ok(());
        }
        let in_transaction = client.transaction.is_some() || client.nesting > 0;
        let context = if in_transaction {
            Context::Multi
        } else {
            Context::Toplevel
        };
        let name = args.get(0).unwrap_or_default().to_vec();
        self.log(client, command, Reason::Auth, context, (user, name));
        Err(CommandError::coded(
            "WRONGPASS invalid username-password pair or user is disabled.",
        ))
    }

    /// Makes the rest of this batch see a change of the users.
    pub(crate) fn refresh_users(&mut self) {
        self.turn.acl_version = self.server.acl.version();
    }

    fn log_denied(
        &self,
        client: &Client,
        command: &'static Command,
        args: &Args<'_>,
        denied: Denied,
        context: Context,
    ) {
        let object = denied.object(command, args);
        self.log(
            client,
            command,
            denied.reason,
            context,
            (client.user_name(), object),
        );
    }

    fn log(
        &self,
        client: &Client,
        command: &'static Command,
        reason: Reason,
        context: Context,
        (user, object): (&[u8], Vec<u8>),
    ) {
        let entry = Entry {
            count: 1,
            reason,
            context,
            object,
            user: user.to_vec(),
            at_ms: self.now_ms(),
            client_info: client_info(client, command),
        };
        self.server.acl.log.add(entry, self.turn.config.acllog_max_len);
    }
}

fn refusal(denied: Denied, command: &Command) -> CommandError {
    let text = match denied.reason {
        Reason::Command => format!(
            "NOPERM this user has no permissions to run the '{}' command",
            command.full_name
        ),
        Reason::Key => {
            "NOPERM this user has no permissions to access one of the keys used as arguments".into()
        }
        Reason::Channel => {
            "NOPERM this user has no permissions to access one of the channels used as arguments".into()
        }
        Reason::Auth => "NOPERM no permission".into(),
    };
    CommandError::coded(text)
}

/// Describes a connection for the log, in the form of CLIENT LIST.
fn client_info(client: &Client, command: &Command) -> String {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "id={} name={} db=0 multi={} cmd={} user={} resp={}",
        client.id(),
        lossy(&client.shared.name().unwrap_or_default()),
        client
            .transaction
            .as_ref()
            .map_or(-1, |transaction| transaction.commands.len() as i64),
        command.full_name,
        lossy(client.user_name()),
        if client.proto() == nagaya_resp::Proto::Resp3 {
            3
        } else {
            2
        },
    )
}
