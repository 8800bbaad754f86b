//! Hands the effects of commands to the journal.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{MAY_REPLICATE, OWN_LOCKS, WRITE};
use nagaya_command_spec::table::Command;
use nagaya_keyspace::db::Db;
use nagaya_keyspace::effects::JournalError;
use nagaya_resp::Out;

use crate::executor::Executor;
use crate::session::Session;

/// A record's buffer keeps this much room for the next one.
const KEPT_BYTES_MAX: usize = 64 * 1024;

impl Executor<'_> {
    /// Hands the record of a database to the journal. Its shards are still locked.
    pub fn append_effects(&mut self, db: &mut Db<'_>) {
        self.journal.refused = false;
        let mut buf = std::mem::take(&mut db.effects).into_record();
        if !buf.is_empty() {
            self.append_record(buf.as_bytes());
        }
        buf.clear(KEPT_BYTES_MAX);
        self.journal.buffer = buf;
    }

    fn append_record(&mut self, record: &[u8]) {
        let Some(journal) = self.server.journal() else {
            return;
        };
        if self.server.journal_failure().is_some() {
            self.journal.refused = true;
            return;
        }
        match journal.append(record) {
            Ok(position) => self.journal.position = self.journal.position.max(position),
            Err(error) => {
                tracing::error!(%error, "journal failed, writes are refused from now on");
                self.server.fail_journal(error);
                self.journal.refused = true;
            }
        }
    }

    /// Takes back the reply, from `start` on, of a command whose changes could not be recorded. The changes
    /// themselves stay until the engine ends; nothing that follows makes them durable.
    #[cold]
    pub fn refuse_unrecorded(&mut self, command: &Command, out: &mut Out, start: usize) {
        self.journal.refused = false;
        // A read that only met an expired key has nothing to take back.
        let may_write = command.spec.flags.has(WRITE.and(MAY_REPLICATE).and(OWN_LOCKS));
        if let (true, Some(failure)) = (may_write, self.server.journal_failure()) {
            out.buf.truncate(start);
            out.error(&failure.to_string());
        }
    }

    /// Refuses a command that would write, or would run one that does, while the journal fails, or while
    /// writes need replicas: there are none.
    #[inline]
    pub fn check_writable(&self, session: &Session, command: &Command) -> Result<(), CommandError> {
        let config = &self.turn.config;
        let lacks_replicas = config.min_replicas_to_write > 0 && config.min_replicas_max_lag > 0;
        let failure = self.server.journal_failure();
        if !lacks_replicas && failure.is_none() {
            return Ok(());
        }
        refuse_write(failure, session, command)
    }
}

#[cold]
fn refuse_write(
    failure: Option<JournalError>,
    session: &Session,
    command: &Command,
) -> Result<(), CommandError> {
    let queued = session
        .transaction
        .iter()
        .flat_map(|transaction| &transaction.commands);
    let writes = command.spec.flags.has(WRITE)
        || (command.spec.name == "EXEC"
            && queued.into_iter().any(|(queued, _)| queued.spec.flags.has(WRITE)));
    match failure {
        _ if !writes => Ok(()),
        Some(failure) => Err(CommandError::coded(failure.to_string())),
        None => Err(CommandError::coded(
            "NOREPLICAS Not enough good replicas to write.",
        )),
    }
}
