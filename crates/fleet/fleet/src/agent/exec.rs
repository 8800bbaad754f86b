//! Workers as child processes: `cmd {}` with the worker's id for `{}`, and the config on standard input.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::{BootTime, boot_now};
use nagaya_leash::{MARGIN, Start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use super::children::{Child, Children, Over, WatchdogCommand};
use super::runner::{Attempt, BoxFuture, Ended, Identity, Question, Runner};
use crate::timing::Timing;

/// Longest answer of a request command, in bytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Clone, Debug)]
pub struct ExecOptions {
    /// A command line; `{}` in any word stands for the worker's id. No shell is involved.
    pub command: String,
    /// A command line that answers a question on its standard output; `{key}` stands for its key.
    pub request: Option<String>,
    /// A worker that writes nothing to its standard output for this long counts as hung. The output goes where the
    /// agent's goes in any case.
    pub progress_limit: Option<Duration>,
    /// Starts the watchdog.
    pub watchdog: WatchdogCommand,
}

/// Runs workers as child processes.
#[derive(Debug)]
pub struct ExecRunner {
    options: ExecOptions,
    timing: Timing,
    words: Vec<String>,
    request: Option<Vec<String>>,
    children: Children,
}

/// The agent's ends of a child's pipes.
struct Pipes {
    input: Option<pipe::Sender>,
    output: Option<pipe::Receiver>,
}

impl ExecRunner {
    /// Must run inside a tokio runtime, in a process that nobody else starts children in. Fails for a command line
    /// without a command.
    pub fn new(options: ExecOptions, timing: Timing) -> io::Result<ExecRunner> {
        let parse = |line: &str| {
            split_words(line).ok_or_else(|| io::Error::other(format!("{line:?} is not a command line")))
        };
        Ok(ExecRunner {
            words: parse(&options.command)?,
            request: options.request.as_deref().map(parse).transpose()?,
            children: Children::new(options.watchdog)?,
            timing,
            options,
        })
    }

    /// Returns the deadline for the watchdog, which kills two of its margins before it: at the end of the lease less
    /// the margin of the settings.
    fn leashed_until(&self, lease: BootTime) -> BootTime {
        lease - self.timing.margin + MARGIN * 2
    }

    fn order(
        &self,
        words: &[String],
        identity: &Identity,
        key: &str,
        lease: BootTime,
        streams: [OwnedFd; 3],
    ) -> Start {
        let fill = |word: &String| -> OsString {
            let word = word.replace("{}", identity.worker.as_str());
            word.replace("{key}", key).into()
        };
        let variable = |name: &str, value: &str| (name.into(), value.into());
        Start {
            command: words.iter().map(fill).collect(),
            variables: vec![
                variable("NAGAYA_APP", identity.app.as_str()),
                variable("NAGAYA_INSTANCE", identity.instance.as_str()),
                variable("NAGAYA_WORKER", identity.worker.as_str()),
                variable("NAGAYA_EPOCH", &identity.epoch.to_string()),
            ],
            streams: Some(streams),
            until: self.leashed_until(lease),
            grace: self.timing.grace,
            stop_timeout: self.timing.grace,
        }
    }

    async fn start(
        &self,
        identity: &Identity,
        lease: &mut watch::Receiver<BootTime>,
    ) -> io::Result<(Child, Pipes)> {
        let (input, feed) = io::pipe()?;
        let (output, follow) = if self.options.progress_limit.is_some() {
            let (follow, output) = io::pipe()?;
            (output.into(), Some(pipe::Receiver::from_owned_fd(follow.into())?))
        } else {
            (io::stdout().as_fd().try_clone_to_owned()?, None)
        };
        let streams = [input.into(), output, io::stderr().as_fd().try_clone_to_owned()?];
        let until = *lease.borrow_and_update();
        let order = self.order(&self.words, identity, "", until, streams);
        let child = self.children.start(order).await?;
        let pipes = Pipes {
            input: Some(pipe::Sender::from_owned_fd(feed.into())?),
            output: follow,
        };
        Ok((child, pipes))
    }

    async fn live(&self, attempt: Attempt<'_>) -> Ended {
        let Attempt {
            identity,
            config,
            stop,
            lease,
            questions,
            started,
        } = attempt;
        let bytes = config.borrow_and_update().clone();
        let (mut child, pipes) = match self.start(identity, lease).await {
            Ok(started) => started,
            Err(error) => return Ended::Failed(format!("{:?} not started: {error}", self.words[0])),
        };
        let mut progress = follow_output(pipes.output);
        let feeding = tokio::spawn(feed(pipes.input, bytes));
        started();
        let (ended, kill_at) = loop {
            tokio::select! {
                biased;
                kill_at = stop.ordered() => break (Ended::Stopped, kill_at),
                over = child.over() => {
                    feeding.abort();
                    return match over {
                        Over::Ended(status) => Ended::Failed(status.to_string()),
                        Over::Deadline | Over::WatchdogKilled => Ended::Restart,
                    };
                }
                Ok(()) = lease.changed() => {
                    child.extend(self.leashed_until(*lease.borrow_and_update()));
                }
                Ok(()) = config.changed() => break (Ended::Restart, self.stop_by(lease)),
                Some(question) = questions.recv() => self.answer(identity, lease, question),
                () = self.hangs(&mut progress) => {
                    break (Ended::Failed("no output for too long".into()), self.stop_by(lease));
                }
            }
        };
        // The watchdog kills at that time; half of the margin is left for it to be late.
        child.end(kill_at + self.timing.margin / 2).await;
        feeding.abort();
        ended
    }

    /// Returns when a worker that is to end now must be dead.
    fn stop_by(&self, lease: &watch::Receiver<BootTime>) -> BootTime {
        let end = *lease.borrow() - self.timing.margin;
        (boot_now() + self.timing.grace).min(end)
    }

    /// Returns when there was no output for too long.
    async fn hangs(&self, progress: &mut watch::Receiver<u64>) {
        let Some(limit) = self.options.progress_limit else {
            return std::future::pending().await;
        };
        while let Ok(Ok(())) = tokio::time::timeout(limit, progress.changed()).await {}
        if progress.has_changed().is_err() {
            // The output was closed; only the end of the process matters now.
            std::future::pending::<()>().await;
        }
    }

    fn answer(&self, identity: &Identity, lease: &watch::Receiver<BootTime>, question: Question) {
        let Some(words) = &self.request else {
            let _ = question
                .answer
                .send(Err("the agent has no command for requests".into()));
            return;
        };
        let request = self.request(words, identity, lease.clone(), &question.key);
        tokio::spawn(async move {
            let answer = request.await;
            // The asker may have given up.
            let _ = question.answer.send(answer);
        });
    }

    /// Returns a future that runs a request command, which is on the leash as the worker is.
    fn request(
        &self,
        words: &[String],
        identity: &Identity,
        mut lease: watch::Receiver<BootTime>,
        key: &str,
    ) -> impl Future<Output = Result<String, String>> + Send + use<> {
        let until = *lease.borrow_and_update();
        let prepared = request_streams().map(|(streams, output)| {
            let order = self.order(words, identity, key, until, streams);
            (order, output)
        });
        let (children, timing) = (self.children.clone(), self.timing);
        async move {
            let (order, output) = prepared.map_err(|error| error.to_string())?;
            let mut child = children.start(order).await.map_err(|error| error.to_string())?;
            let mut bytes = Vec::new();
            let reading = async {
                let output = pipe::Receiver::from_owned_fd(output)?;
                output.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).await
            };
            let renewing = async {
                while lease.changed().await.is_ok() {
                    let until = *lease.borrow_and_update();
                    child.extend(until - timing.margin + MARGIN * 2);
                }
            };
            let read = tokio::select! {
                read = tokio::time::timeout(ANSWER_LIMIT, reading) => read,
                () = renewing => Ok(Err(io::Error::other("the worker has ended"))),
            };
            let answer = match read {
                Err(_) => Err("the request command took too long".to_owned()),
                Ok(Err(error)) => Err(error.to_string()),
                Ok(Ok(_)) => match tokio::time::timeout(timing.grace, child.over()).await {
                    Ok(Over::Ended(status)) if status.success() => return Ok(read_answer(&bytes)),
                    Ok(Over::Ended(status)) => return Err(status.to_string()),
                    Ok(_) => return Err("the request command was ended".into()),
                    Err(_) => Ok(read_answer(&bytes)),
                },
            };
            child.end(boot_now() + timing.grace + timing.margin).await;
            answer
        }
    }
}

impl Runner for ExecRunner {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Ended> {
        Box::pin(self.live(attempt))
    }
}

fn request_streams() -> io::Result<([OwnedFd; 3], OwnedFd)> {
    let (output, written) = io::pipe()?;
    let nothing = std::fs::File::open("/dev/null")?;
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    Ok(([nothing.into(), written.into(), errors], output.into()))
}

fn read_answer(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// Passes output on to the agent's own and counts its pieces.
fn follow_output(output: Option<pipe::Receiver>) -> watch::Receiver<u64> {
    let (sender, receiver) = watch::channel(0);
    if let Some(mut output) = output {
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read) = output.read(&mut buffer).await
                && read > 0
            {
                sender.send_modify(|pieces| *pieces += 1);
                let piece = buffer[..read].to_vec();
                // If nobody takes it, the worker goes on all the same.
                let _ = tokio::task::spawn_blocking(move || {
                    let mut own = io::stdout().lock();
                    own.write_all(&piece).and_then(|()| own.flush())
                })
                .await;
            }
        });
    }
    receiver
}

async fn feed(pipe: Option<pipe::Sender>, config: Arc<[u8]>) {
    if let Some(mut pipe) = pipe {
        // A worker need not read its config.
        let _ = pipe.write_all(&config).await;
    }
}

/// Splits a command line as a shell does: white space, single and double quotes, backslash.
pub(crate) fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(letters.next()?),
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    (quote.is_none() && !words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_split_as_a_shell_does() {
        let check = |line: &str, words: &[&str]| {
            assert_eq!(split_words(line).unwrap(), words, "{line}");
        };
        check("cmd {}", &["cmd", "{}"]);
        check(
            "sh -c 'echo \"$0\" {}' \"a b\"\\ c ''",
            &["sh", "-c", "echo \"$0\" {}", "a b c", ""],
        );
        for bad in ["", "  ", "a 'b", "a\\"] {
            assert!(split_words(bad).is_none(), "{bad}");
        }
    }
}
