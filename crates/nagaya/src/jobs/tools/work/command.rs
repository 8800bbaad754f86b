//! Runs one command for one attempt.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nagaya_client::{Attempt, CancellationToken, Failure, Handler, Outcome, Stopped};
use nagaya_process::{GuardedGroup, Guardian, Signal};
use tempfile::{NamedTempFile, TempDir};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};

use super::output::{follow_log, read_result, result_of};
use super::process::{self, PROGRESS_FD, Started};
use super::progress;

/// How long output may still come after the command and its group have ended.
const OUTPUT_LIMIT: Duration = Duration::from_secs(2);

/// A handler that runs a command.
pub(super) struct CommandHandler {
    pub(super) command: Vec<OsString>,
    /// Exit codes after which no retry will help.
    pub(super) permanent: Vec<i32>,
    pub(super) result_bytes_max: usize,
    pub(super) grace: Duration,
    /// Ends every command at once.
    pub(super) kill: CancellationToken,
    /// Holds the payloads as files.
    pub(super) folder: TempDir,
    pub(super) guardian: Arc<Guardian>,
}

impl Handler for CommandHandler {
    async fn run(&self, attempt: Attempt) -> Outcome {
        let payload = self.payload_file(&attempt)?;
        let Started {
            mut child,
            group,
            progress,
        } = self.start(&attempt, &payload)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(Failure::retry("the command's streams are missing"));
        };
        let text = attempt.claimed().payload_bytes();
        let output = async {
            let ((), (), result, log) = tokio::join!(
                feed(stdin, &text),
                progress::follow(&attempt, progress),
                read_result(stdout, self.result_bytes_max),
                follow_log(&attempt, stderr),
            );
            (result, log)
        };
        tokio::pin!(output);
        let ended = async {
            let status = self.wait(&attempt, &mut child, &group).await;
            // Processes left in the group would keep our pipes open.
            drop(group);
            status
        };
        tokio::pin!(ended);
        let (status, (result, log)) = tokio::select! {
            status = &mut ended => match tokio::time::timeout(OUTPUT_LIMIT, output).await {
                Ok(output) => (status, output),
                Err(_) => (status, (Ok(Vec::new()), "the command's output stays open".to_owned())),
            },
            output = &mut output => (ended.await, output),
        };
        let status = status?;
        match failure(status, &log, &self.permanent) {
            Some(failure) => Err(failure),
            None => result_of(&result?, self.result_bytes_max),
        }
    }
}

impl CommandHandler {
    fn payload_file(&self, attempt: &Attempt) -> io::Result<NamedTempFile> {
        let mut file = NamedTempFile::with_prefix_in("payload-", self.folder.path())?;
        io::Write::write_all(&mut file, &attempt.claimed().payload_bytes())?;
        Ok(file)
    }

    fn start(&self, attempt: &Attempt, payload: &NamedTempFile) -> Result<Started, Failure> {
        let (number, fd) = (attempt.number().to_string(), PROGRESS_FD.to_string());
        let mut variables: Vec<(&str, &OsStr)> = vec![
            ("NAGAYA_JOB_ID", attempt.id().as_ref()),
            ("NAGAYA_JOB_ATTEMPT", number.as_ref()),
            ("NAGAYA_JOB_QUEUE", attempt.queue().as_ref()),
            ("NAGAYA_JOB_TOKEN", attempt.token().as_ref()),
            ("NAGAYA_JOB_PAYLOAD_FILE", payload.path().as_ref()),
            ("NAGAYA_JOB_PROGRESS_FD", fd.as_ref()),
        ];
        if let Some(traceparent) = &attempt.claimed().traceparent {
            variables.push(("TRACEPARENT", traceparent.as_ref()));
        }
        process::start(&self.command, &variables, Arc::clone(&self.guardian))
            .map_err(|error| Failure::retry(format!("the command could not be started: {error}")))
    }

    /// Waits for the command's end, and brings it about when it must stop.
    async fn wait(
        &self,
        attempt: &Attempt,
        child: &mut Child,
        group: &GuardedGroup,
    ) -> Result<ExitStatus, Failure> {
        let why = tokio::select! {
            status = child.wait() => return Ok(status?),
            why = attempt.stopped() => match why {
                Stopped::LeaseLost(reason) => format!("the lease was lost: {reason}"),
                Stopped::Draining => "the worker was shut down".to_owned(),
            },
            () = self.kill.cancelled() => {
                group.signal(Signal::KILL);
                child.wait().await?;
                return Err(Failure::retry("the worker was shut down and killed the command"));
            }
        };
        group.signal(Signal::TERM);
        tokio::select! {
            ended = child.wait() => { ended?; }
            () = self.kill.cancelled() => (),
            () = tokio::time::sleep(self.grace) => (),
        }
        group.signal(Signal::KILL);
        child.wait().await?;
        Err(Failure::retry(why))
    }
}

/// What an exit status says, if it is no success.
fn failure(status: ExitStatus, log: &str, permanent: &[i32]) -> Option<Failure> {
    let how = match (status.code(), status.signal()) {
        (Some(0), _) => return None,
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended for an unknown reason".to_owned(),
    };
    let error = match log.trim() {
        "" => how,
        log => format!("{how}: {log}"),
    };
    Some(Failure {
        error,
        permanent: status.code().is_some_and(|code| permanent.contains(&code)),
    })
}

/// Writes the payload. A command that does not read it is fine.
async fn feed(mut stdin: ChildStdin, payload: &[u8]) {
    match stdin.write_all(payload).await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            tracing::warn!(%error, "the payload could not be written");
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_say_success_retry_or_never() {
        let of = |raw| failure(ExitStatus::from_raw(raw), "last words\n", &[65, 2]);
        assert_eq!(of(0), None);
        assert_eq!(of(65 << 8), Some(Failure::permanent("exit code 65: last words")));
        assert_eq!(of(2 << 8), Some(Failure::permanent("exit code 2: last words")));
        assert_eq!(of(75 << 8), Some(Failure::retry("exit code 75: last words")));
        assert_eq!(of(9), Some(Failure::retry("killed by signal 9: last words")));
    }
}
