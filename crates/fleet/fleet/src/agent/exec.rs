//! Workers as child processes: `cmd {}` with the worker's id for `{}`, and the config on standard input.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nagaya_process::{Group, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::runner::{Attempt, BoxFuture, Ended, Identity, Question, Runner};
use super::spawn::Spawner;
use nagaya_clock::{BootTime, boot_now};

/// Longest answer of a request command, in bytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct ExecOptions {
    /// A command line; `{}` in any word stands for the worker's id. No shell is involved.
    pub command: String,
    /// A command line that answers a question on its standard output; `{key}` stands for its key.
    pub request: Option<String>,
    /// A worker that writes nothing to its standard output for this long counts as hung. If unset, the output
    /// goes where the agent's goes.
    pub progress_limit: Option<Duration>,
}

/// Runs workers as child processes.
#[derive(Debug)]
pub struct ExecRunner {
    options: ExecOptions,
    words: Vec<String>,
    request: Option<Vec<String>>,
    spawner: Spawner,
}

impl ExecRunner {
    /// Must run inside a tokio runtime. Fails for a command line without a command.
    pub fn new(options: ExecOptions) -> io::Result<ExecRunner> {
        let parse = |line: &str| {
            split_words(line).ok_or_else(|| io::Error::other(format!("{line:?} is not a command line")))
        };
        Ok(ExecRunner {
            words: parse(&options.command)?,
            request: options.request.as_deref().map(parse).transpose()?,
            spawner: Spawner::start()?,
            options,
        })
    }

    fn command(&self, words: &[String], identity: &Identity, key: &str) -> Command {
        let fill = |word: &String| word.replace("{}", identity.worker.as_str()).replace("{key}", key);
        let mut command = Command::new(fill(&words[0]));
        command
            .args(words[1..].iter().map(fill))
            .env("NAGAYA_APP", identity.app.as_str())
            .env("NAGAYA_INSTANCE", identity.instance.as_str())
            .env("NAGAYA_WORKER", identity.worker.as_str())
            .env("NAGAYA_EPOCH", identity.epoch.to_string())
            .stdin(Stdio::piped());
        command
    }

    async fn live(&self, attempt: Attempt<'_>) -> Ended {
        let Attempt {
            identity,
            config,
            stop,
            questions,
            started,
        } = attempt;
        let mut command = self.command(&self.words, identity, "");
        if self.options.progress_limit.is_some() {
            command.stdout(Stdio::piped());
        }
        let bytes = config.borrow_and_update().clone();
        let mut child = match self.spawner.spawn(command).await {
            Ok(child) => child,
            Err(error) => return Ended::Failed(format!("{:?} not started: {error}", self.words[0])),
        };
        let Some(group) = Group::of(&child) else {
            return Ended::Failed("the process has no id".into());
        };
        let progress = self.follow_output(&mut child);
        let feeding = tokio::spawn(feed(child.stdin.take(), bytes));
        started();
        let mut progress_seen = progress.clone();
        let (ended, kill_at) = loop {
            tokio::select! {
                biased;
                kill_at = stop.ordered() => break (Ended::Stopped, kill_at),
                status = child.wait() => {
                    let reason = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                    break (Ended::Failed(reason), BootTime::ZERO);
                }
                Ok(()) = config.changed() => break (Ended::Restart, boot_now() + Duration::from_secs(1)),
                Some(question) = questions.recv() => self.answer(identity, question),
                () = self.hangs(&mut progress_seen) => {
                    break (Ended::Failed("no output for too long".into()), BootTime::ZERO);
                }
            }
        };
        end_group(&mut child, group, kill_at).await;
        feeding.abort();
        self.spawner.forget(group);
        ended
    }

    /// Counts chunks of output, if a progress limit is set.
    fn follow_output(&self, child: &mut Child) -> watch::Receiver<u64> {
        let (sender, receiver) = watch::channel(0);
        if let Some(mut output) = child.stdout.take() {
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while matches!(output.read(&mut buffer).await, Ok(read) if read > 0) {
                    sender.send_modify(|pieces| *pieces += 1);
                }
            });
        }
        receiver
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

    fn answer(&self, identity: &Identity, question: Question) {
        let Some(words) = &self.request else {
            let _ = question
                .answer
                .send(Err("the agent has no command for requests".into()));
            return;
        };
        let mut command = self.command(words, identity, &question.key);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let spawner = self.spawner.clone();
        tokio::spawn(async move {
            let answer = tokio::time::timeout(ANSWER_LIMIT, run_request(spawner, command)).await;
            let answer = answer.unwrap_or_else(|_| Err("the request command took too long".into()));
            // The asker may have given up.
            let _ = question.answer.send(answer);
        });
    }
}

impl Runner for ExecRunner {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Ended> {
        Box::pin(self.live(attempt))
    }
}

async fn run_request(spawner: Spawner, command: Command) -> Result<String, String> {
    let mut child = spawner.spawn(command).await.map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    if let Some(output) = child.stdout.take() {
        let read = output.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).await;
        read.map_err(|error| error.to_string())?;
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(status.to_string());
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

async fn feed(pipe: Option<tokio::process::ChildStdin>, config: Arc<[u8]>) {
    if let Some(mut pipe) = pipe {
        // A worker need not read its config.
        let _ = pipe.write_all(&config).await;
    }
}

/// Sends TERM, and KILL at the given time; returns when no process of the group is left.
async fn end_group(child: &mut Child, group: Group, kill_at: BootTime) {
    group.signal(Signal::TERM);
    let patience = kill_at.since(boot_now()).min(NO_LIMIT);
    if tokio::time::timeout(patience, child.wait()).await.is_err() {
        group.signal(Signal::KILL);
    }
    if let Err(error) = child.wait().await {
        tracing::error!(%error, "worker not waited for");
    }
    // The worker itself is gone; the processes it left behind get the rest of the time.
    let kill_late = || {
        if boot_now() >= kill_at {
            group.signal(Signal::KILL);
        }
    };
    group.wait(kill_late).await;
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
