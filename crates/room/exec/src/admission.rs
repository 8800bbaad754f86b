//! Who a connection acts for, and the check before each of its commands.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{NO_AUTH, NO_MULTI};
use nagaya_command_spec::table::Command;
use nagaya_connections::acl::check::{Denied, Reason};
use nagaya_connections::acl::log::{Context, Entry};
use nagaya_resp::Args;

use crate::executor::Executor;
use crate::session::Session;

impl Executor<'_> {
    /// Checks that a client may run a command with these arguments.
    #[inline]
    pub fn check_rights(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        if session.identity.free_at == self.turn.acl_version {
            return Ok(());
        }
        self.check_rights_closely(session, command, args)
    }

    #[cold]
    fn check_rights_closely(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        let checked = self.admit_user(session, command, args);
        if checked.is_err() {
            self.stats.commands[command.number].rejected.add(1);
        }
        checked
    }

    fn admit_user(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        session.identity.refresh(&self.server.acl, self.turn.acl_version);
        if session.identity.removed {
            session.close_after_reply = true;
            return Err(CommandError::coded("NOAUTH Authentication required."));
        }
        if session.identity.must_authenticate && !command.spec.flags.has(NO_AUTH) {
            return Err(CommandError::coded("NOAUTH Authentication required."));
        }
        let in_transaction = session.transaction.is_some();
        if in_transaction && command.spec.flags.has(NO_MULTI) {
            // The transaction refuses it with a better reason.
            return Ok(());
        }
        let Err(denied) = session.identity.check(command, args) else {
            return Ok(());
        };
        let context = if in_transaction {
            Context::Multi
        } else {
            Context::Toplevel
        };
        self.log_denied(session, command, args, denied, context);
        Err(refusal(denied, command))
    }

    /// Checks that the settings let a client use a command that looks inside the server.
    #[cold]
    pub(crate) fn check_protected(&self, session: &Session, command: &Command) -> Result<(), CommandError> {
        let config = &self.turn.config;
        let (name, option, allowed) = if command.full_name.starts_with("module") {
            ("MODULE", "enable-module-command", config.enable_module_command)
        } else {
            ("DEBUG", "enable-debug-command", config.enable_debug_command)
        };
        if allowed == "yes" || allowed == "local" && session.shared.is_local() {
            return Ok(());
        }
        self.stats.commands[command.number].rejected.add(1);
        Err(CommandError::err(format!(
            "{name} command not allowed. If the {option} option is set to \"local\", you can run it from a local \
             connection, otherwise you need to set this option in the configuration file, and then restart the \
             server."
        )))
    }

    /// Checks a queued command once more before EXEC runs it: rules may have changed since.
    #[inline]
    pub fn check_rights_at_exec(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        if session.identity.free_at == self.turn.acl_version {
            return Ok(());
        }
        session.identity.refresh(&self.server.acl, self.turn.acl_version);
        let Err(denied) = session.identity.check(command, args) else {
            return Ok(());
        };
        self.log_denied(session, command, args, denied, Context::Multi);
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
        session: &mut Session,
        command: &'static Command,
        args: &Args<'_>,
    ) -> Result<(), &'static str> {
        if self.may_run(session, command, args) {
            return Ok(());
        }
        let Err(denied) = session.identity.check(command, args) else {
            return Ok(());
        };
        self.log_denied(session, command, args, denied, Context::Lua);
        Err(match denied.reason {
            Reason::Command => "can't run this command or subcommand",
            Reason::Key => "can't access at least one of the keys mentioned in the command arguments",
            Reason::Channel => "can't publish to the channel mentioned in the command",
            Reason::Auth => "lacking the permissions for the command",
        })
    }

    /// Returns whether a client is known to be allowed everything.
    pub fn may_do_everything(&self, session: &Session) -> bool {
        session.identity.free_at == self.turn.acl_version
    }

    /// Returns whether a client may run a command, without a trace in the log (`redis.acl_check_cmd`).
    pub fn may_run(&mut self, session: &mut Session, command: &'static Command, args: &Args<'_>) -> bool {
        if session.identity.free_at == self.turn.acl_version {
            return true;
        }
        session.identity.refresh(&self.server.acl, self.turn.acl_version);
        session.identity.check(command, args).is_ok()
    }

    /// Returns whether a client may run a command that reads keys which its arguments do not name.
    pub fn may_read_all_keys(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &Args<'_>,
    ) -> bool {
        if session.identity.free_at == self.turn.acl_version {
            return true;
        }
        session.identity.refresh(&self.server.acl, self.turn.acl_version);
        let rules = session.identity.rules.as_ref();
        rules.is_some_and(|rules| rules.allow_reading_all_keys(command, args))
    }

    /// Checks that a client may use keys that its request about a tag has found there.
    pub fn check_keys_of_tag(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &Args<'_>,
        keys: &[Vec<u8>],
    ) -> Result<(), CommandError> {
        if session.identity.free_at == self.turn.acl_version {
            return Ok(());
        }
        session.identity.refresh(&self.server.acl, self.turn.acl_version);
        let Some(rules) = session.identity.rules.clone() else {
            return Err(CommandError::coded("NOAUTH Authentication required."));
        };
        rules.check_keys_of_tag(command, args, keys).map_err(|denied| {
            self.log_denied(session, command, args, denied, Context::Toplevel);
            refusal(denied, command)
        })
    }

    /// Returns whether a client has yet to authenticate before it may do anything, so that the sizes of
    /// its requests are to be limited.
    pub fn must_authenticate(&self, session: &mut Session) -> bool {
        if session.identity.free_at == self.turn.acl_version {
            return false;
        }
        session.identity.refresh(&self.server.acl, self.turn.acl_version);
        session.identity.must_authenticate
    }

    /// Returns whether a client has authenticated, or did not have to when it came.
    pub fn is_authenticated(&self, session: &mut Session) -> bool {
        session.identity.refresh(&self.server.acl, self.turn.acl_version);
        session.identity.authenticated
    }

    /// Logs a client in; wrong attempts are kept in the log.
    pub fn log_in(
        &mut self,
        session: &mut Session,
        args: &Args<'_>,
        command: &'static Command,
        (user, password): (&[u8], &[u8]),
    ) -> Result<(), CommandError> {
        let account = self.server.acl.account(user);
        if let Some(account) = account.filter(|account| account.rules().accept(password)) {
            session.act_for(account);
            return Ok(());
        }
        let in_transaction = session.transaction.is_some() || session.nesting > 0;
        let context = if in_transaction {
            Context::Multi
        } else {
            Context::Toplevel
        };
        let name = args.get(0).unwrap_or_default().to_vec();
        self.log(session, command, Reason::Auth, context, (user, name));
        Err(CommandError::coded(
            "WRONGPASS invalid username-password pair or user is disabled.",
        ))
    }

    /// Makes the rest of this batch see a change of the users.
    pub fn refresh_users(&mut self) {
        self.turn.acl_version = self.server.acl.version();
    }

    fn log_denied(
        &self,
        session: &Session,
        command: &'static Command,
        args: &Args<'_>,
        denied: Denied,
        context: Context,
    ) {
        let object = denied.object(command, args);
        self.log(
            session,
            command,
            denied.reason,
            context,
            (session.user_name(), object),
        );
    }

    fn log(
        &self,
        session: &Session,
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
            client_info: client_info(session, command),
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
fn client_info(session: &Session, command: &Command) -> String {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "id={} name={} db={} multi={} cmd={} user={} resp={}",
        session.id(),
        lossy(&session.shared.name().unwrap_or_default()),
        session.database(),
        session
            .transaction
            .as_ref()
            .map_or(-1, |transaction| transaction.commands.len() as i64),
        command.full_name,
        lossy(session.user_name()),
        if session.proto() == nagaya_resp::Proto::Resp3 {
            3
        } else {
            2
        },
    )
}
