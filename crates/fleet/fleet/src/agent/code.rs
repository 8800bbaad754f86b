//! Workers written in Rust: a trait whose methods never run concurrently.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::runner::{Attempt, BoxFuture, Ended, Identity, Question, Runner, StopSignal};
use nagaya_clock::boot_now;

/// Stands for "no limit": tokio's timers accept nothing longer.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why a worker's own code failed.
pub type CodeError = Box<dyn std::error::Error + Send + Sync>;

/// A worker. Its methods are called one at a time, from one task. When it has to stop, the running call is
/// dropped at its next await point, and `on_end` gets the remaining time.
pub trait Worker: Send + 'static {
    /// Called once, before anything else.
    fn on_start<'a>(&'a mut self, config: Arc<[u8]>) -> BoxFuture<'a, Result<(), CodeError>>;

    /// Called repeatedly with a pause in between. Questions and new configs are handled during the pause. An
    /// error is logged and does not end the worker.
    fn on_loop(&mut self) -> BoxFuture<'_, Result<(), CodeError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called when the config has changed. An error ends this copy, and a new one is started.
    fn on_update<'a>(&'a mut self, config: Arc<[u8]>) -> BoxFuture<'a, Result<(), CodeError>>;

    /// Answers a question.
    fn on_request<'a>(&'a mut self, key: String) -> BoxFuture<'a, Result<String, CodeError>> {
        Box::pin(async move { Err(format!("the worker knows nothing about {key}").into()) })
    }

    /// Called once at the end, unless the start failed.
    fn on_end(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Runs workers built by `make`, one per copy.
pub struct CodeRunner<F> {
    make: F,
    pub loop_pause: Duration,
    /// A call of `on_loop` that takes longer counts as hung, and the copy is replaced.
    pub progress_limit: Option<Duration>,
}

impl<F> CodeRunner<F> {
    pub fn new(make: F) -> CodeRunner<F> {
        CodeRunner {
            make,
            loop_pause: Duration::from_secs(1),
            progress_limit: None,
        }
    }
}

impl<F, W> Runner for CodeRunner<F>
where
    F: Fn(&Identity) -> W + Send + Sync + 'static,
    W: Worker,
{
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Ended> {
        let worker = (self.make)(attempt.identity);
        Box::pin(self.live(worker, attempt))
    }
}

impl<F> CodeRunner<F> {
    async fn live<W: Worker>(&self, mut worker: W, attempt: Attempt<'_>) -> Ended {
        let Attempt {
            config,
            stop,
            questions,
            started,
            ..
        } = attempt;
        let first = config.borrow_and_update().clone();
        tokio::select! {
            biased;
            _ = stop.ordered() => return Ended::Stopped,
            begun = worker.on_start(first) => if let Err(error) = begun {
                return Ended::Failed(format!("on_start failed: {error}"));
            },
        }
        started();
        let ended = loop {
            if let Some(ended) = self.one_round(&mut worker, config, stop, questions).await {
                break ended;
            }
        };
        let left = if stop.is_ordered() {
            stop.ordered().await.since(boot_now())
        } else {
            self.loop_pause.max(Duration::from_secs(1))
        };
        if tokio::time::timeout(left, worker.on_end()).await.is_err() {
            tracing::warn!("on_end was cut off");
        }
        ended
    }

    /// Runs `on_loop` once, then handles questions and new configs during the pause.
    async fn one_round<W: Worker>(
        &self,
        worker: &mut W,
        config: &mut watch::Receiver<Arc<[u8]>>,
        stop: &mut StopSignal,
        questions: &mut mpsc::Receiver<Question>,
    ) -> Option<Ended> {
        let limit = self.progress_limit.unwrap_or(NO_LIMIT);
        tokio::select! {
            biased;
            _ = stop.ordered() => return Some(Ended::Stopped),
            round = tokio::time::timeout(limit, worker.on_loop()) => match round {
                Err(_) => return Some(Ended::Failed("on_loop made no progress".into())),
                Ok(Err(error)) => tracing::warn!(%error, "on_loop failed"),
                Ok(Ok(())) => (),
            },
        }
        let pause = tokio::time::sleep(self.loop_pause);
        tokio::pin!(pause);
        loop {
            let event = tokio::select! {
                biased;
                _ = stop.ordered() => return Some(Ended::Stopped),
                Ok(()) = config.changed() => None,
                Some(question) = questions.recv() => Some(question),
                () = &mut pause => return None,
            };
            let new = match event {
                None => config.borrow_and_update().clone(),
                Some(_) => Arc::default(),
            };
            tokio::select! {
                biased;
                _ = stop.ordered() => return Some(Ended::Stopped),
                done = react(worker, event, new) => if let Err(error) = done {
                    return Some(Ended::Failed(format!("on_update failed: {error}")));
                },
            }
        }
    }
}

/// Answers a question, or applies a new config if no question is queued.
async fn react<W: Worker>(
    worker: &mut W,
    question: Option<Question>,
    new: Arc<[u8]>,
) -> Result<(), CodeError> {
    match question {
        Some(question) => answer(worker, question).await,
        None => worker.on_update(new).await?,
    }
    Ok(())
}

async fn answer<W: Worker>(worker: &mut W, question: Question) {
    let answer = worker.on_request(question.key).await;
    // The asker may have given up.
    let _ = question.answer.send(answer.map_err(|error| error.to_string()));
}
