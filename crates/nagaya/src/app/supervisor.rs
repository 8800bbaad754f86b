//! Runs the components together: one fails, all stop; told to stop, all stop in order.
//!
//! Components are listed with what others depend on first and are started in that order.
//! At the end all are told to drain at once, and then, from the last to the first, each is
//! told to stop and waited for. One deadline spans all of that. When it passes, everything
//! still open is cut, and components get a last short moment to say what they cut.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::anyhow;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::app::readiness::{Readiness, State};
use crate::app::service::{Service, Shutdown};

/// How long components may take to end after their open work was cut.
const CUT_GRACE: Duration = Duration::from_secs(2);

/// The components and how they end.
pub(crate) struct Supervisor {
    services: Vec<Box<dyn Service>>,
    readiness: Readiness,
    drain_timeout: Duration,
}

/// The components once started.
struct Started {
    tasks: JoinSet<anyhow::Result<Vec<String>>>,
    /// Which component a task is; a task that has ended is gone from here.
    running: HashMap<Id, usize>,
    names: Vec<&'static str>,
    shutdowns: Vec<Shutdown>,
    readiness: Readiness,
    cut: Vec<String>,
    failure: Option<anyhow::Error>,
}

impl Supervisor {
    /// `readiness` must have been made with the services' names, in their order.
    pub(crate) fn new(
        services: Vec<Box<dyn Service>>,
        readiness: Readiness,
        drain_timeout: Duration,
    ) -> Supervisor {
        Supervisor {
            services,
            readiness,
            drain_timeout,
        }
    }

    /// Runs until `stop` is cancelled or a component ends, then until all have ended.
    ///
    /// `on_ready` is called once, when all components are ready. Returns the first failure.
    pub(crate) async fn run(self, stop: CancellationToken, on_ready: impl FnOnce()) -> anyhow::Result<()> {
        let Supervisor {
            services,
            readiness,
            drain_timeout,
        } = self;
        let mut started = Started::start(services, readiness.clone());
        let mut on_ready = Some(on_ready);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                ended = started.next_end() => {
                    if let Some((index, Ok(_))) = ended {
                        started.fail(anyhow!("{} ended by itself", started.names[index]));
                    }
                    break;
                }
                () = readiness.all_ready(), if on_ready.is_some() => {
                    if let Some(call) = on_ready.take() {
                        call();
                    }
                }
            }
        }
        started.finish(drain_timeout).await
    }
}

impl Started {
    fn start(services: Vec<Box<dyn Service>>, readiness: Readiness) -> Started {
        let mut started = Started {
            tasks: JoinSet::new(),
            running: HashMap::new(),
            names: services.iter().map(|service| service.name()).collect(),
            shutdowns: Vec::new(),
            readiness,
            cut: Vec::new(),
            failure: None,
        };
        let shutdown = Shutdown::default();
        for (index, service) in services.into_iter().enumerate() {
            let own = shutdown.sibling();
            started.shutdowns.push(own.clone());
            let task = started
                .tasks
                .spawn(service.run(own, started.readiness.handle(index)));
            started.running.insert(task.id(), index);
        }
        started
    }

    /// Waits for the next component to end and records its result. Cancel safe.
    async fn next_end(&mut self) -> Option<(usize, Result<(), ()>)> {
        let (id, result) = match self.tasks.join_next_with_id().await? {
            Ok((id, result)) => (id, result),
            Err(panic) => (panic.id(), Err(describe_panic(&panic))),
        };
        let index = self
            .running
            .remove(&id)
            .expect("each task is booked when it is spawned");
        let name = self.names[index];
        match result {
            Ok(cut) => {
                self.readiness.set(index, State::Stopped);
                self.cut
                    .extend(cut.into_iter().map(|what| format!("{name}: {what}")));
                Some((index, Ok(())))
            }
            Err(failure) => {
                self.readiness.set(index, State::Failed);
                self.fail(failure.context(format!("{name} failed")));
                Some((index, Err(())))
            }
        }
    }

    /// Keeps the first failure, which is the cause; later ones are usually consequences.
    fn fail(&mut self, failure: anyhow::Error) {
        error!(error = format!("{failure:#}"), "a component failed");
        self.failure.get_or_insert(failure);
    }

    async fn finish(mut self, drain_timeout: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + drain_timeout;
        self.readiness.set_draining();
        if let Some(shutdown) = self.shutdowns.first() {
            shutdown.begin_draining();
        }
        if timeout_at(deadline, self.stop_in_turn()).await.is_err() {
            warn!(?drain_timeout, "open work did not finish in time and is cut");
            self.cut_all().await;
        }
        for what in &self.cut {
            warn!(what, "cut off");
        }
        match self.failure {
            Some(failure) => Err(failure),
            None => {
                info!("all components have stopped");
                Ok(())
            }
        }
    }

    async fn stop_in_turn(&mut self) {
        for index in (0..self.shutdowns.len()).rev() {
            self.shutdowns[index].tell_stop();
            while self.running.values().any(|running| *running == index) {
                self.next_end().await;
            }
        }
    }

    async fn cut_all(&mut self) {
        for shutdown in &self.shutdowns {
            shutdown.tell_cut();
            shutdown.tell_stop();
        }
        let all_ended = async { while self.next_end().await.is_some() {} };
        if timeout_at(Instant::now() + CUT_GRACE, all_ended).await.is_err() {
            let late: Vec<_> = self.running.values().map(|index| self.names[*index]).collect();
            self.fail(anyhow!("{} did not stop", late.join(", ")));
            self.tasks.abort_all();
        }
    }
}

fn describe_panic(error: &JoinError) -> anyhow::Error {
    anyhow!("it panicked: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::readiness::Ready;
    use crate::app::service::Running;
    use std::sync::{Arc, Mutex};

    type Log = Arc<Mutex<Vec<String>>>;

    /// A component that does what its test says and writes down when it ends.
    struct Fake<F>(&'static str, Log, F);

    impl<F, R> Service for Fake<F>
    where
        F: FnOnce(Shutdown, Ready) -> R + Send + 'static,
        R: Future<Output = anyhow::Result<Vec<String>>> + Send + 'static,
    {
        fn name(&self) -> &'static str {
            self.0
        }

        fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
            let Fake(name, log, work) = *self;
            Box::pin(async move {
                let result = work(shutdown, ready).await;
                log.lock().unwrap().push(name.to_owned());
                result
            })
        }
    }

    fn until_stopped(name: &'static str, log: &Log) -> Box<dyn Service> {
        Box::new(Fake(
            name,
            log.clone(),
            |shutdown: Shutdown, ready: Ready| async move {
                ready.ready();
                shutdown.stopped().await;
                Ok(Vec::new())
            },
        ))
    }

    async fn run(services: Vec<Box<dyn Service>>, stop_when_ready: bool) -> (anyhow::Result<()>, Readiness) {
        let names: Vec<_> = services.iter().map(|service| service.name()).collect();
        let readiness = Readiness::new(&names);
        let supervisor = Supervisor::new(services, readiness.clone(), Duration::from_secs(10));
        let stop = CancellationToken::new();
        let on_ready = {
            let stop = stop.clone();
            move || {
                if stop_when_ready {
                    stop.cancel()
                }
            }
        };
        (supervisor.run(stop, on_ready).await, readiness)
    }

    #[tokio::test]
    async fn components_stop_from_the_last_to_the_first() {
        let log = Log::default();
        let services = vec![
            until_stopped("core", &log),
            until_stopped("middle", &log),
            until_stopped("front", &log),
        ];
        let (result, readiness) = run(services, true).await;
        result.unwrap();
        assert_eq!(*log.lock().unwrap(), ["front", "middle", "core"]);
        assert!(
            readiness
                .snapshot()
                .iter()
                .all(|component| component.state == State::Stopped)
        );
    }

    #[tokio::test]
    async fn the_first_failure_stops_all_and_is_returned() {
        let log = Log::default();
        let failing = Fake("broken", log.clone(), |_, _| async {
            Err(anyhow!("out of paper"))
        });
        let (result, _) = run(vec![until_stopped("core", &log), Box::new(failing)], false).await;
        assert_eq!(
            format!("{:#}", result.unwrap_err()),
            "broken failed: out of paper"
        );
        assert_eq!(*log.lock().unwrap(), ["broken", "core"]);
    }

    #[tokio::test]
    async fn a_panic_and_an_early_end_are_failures_too() {
        let log = Log::default();
        let panicking = Fake("shaky", log.clone(), |_, _| async { panic!("on purpose") });
        let (result, _) = run(vec![Box::new(panicking)], false).await;
        assert!(format!("{:#}", result.unwrap_err()).starts_with("shaky failed: it panicked"));
        let ending = Fake("lazy", log.clone(), |_, _| async { Ok(Vec::new()) });
        let (result, _) = run(vec![Box::new(ending)], false).await;
        assert_eq!(result.unwrap_err().to_string(), "lazy ended by itself");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_outlasts_the_deadline_is_cut_and_the_end_is_clean() {
        let log = Log::default();
        let busy = Fake(
            "busy",
            log.clone(),
            |shutdown: Shutdown, ready: Ready| async move {
                ready.ready();
                shutdown.draining().await;
                shutdown.cut().await;
                Ok(vec!["3 letters".to_owned()])
            },
        );
        let (result, _) = run(vec![until_stopped("core", &log), Box::new(busy)], true).await;
        result.unwrap();
        assert_eq!(log.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_component_that_never_stops_is_named() {
        let log = Log::default();
        let deaf = Fake("deaf", log.clone(), |_, ready: Ready| async move {
            ready.ready();
            std::future::pending().await
        });
        let (result, _) = run(vec![Box::new(deaf)], true).await;
        assert_eq!(result.unwrap_err().to_string(), "deaf did not stop");
    }

    #[tokio::test]
    async fn a_component_may_own_a_thread() {
        let log = Log::default();
        let threaded = Fake(
            "threaded",
            log.clone(),
            |shutdown: Shutdown, ready: Ready| async move {
                let (ended, end) = tokio::sync::oneshot::channel();
                let thread = std::thread::spawn(move || {
                    ready.ready();
                    while !shutdown.is_stopped() {
                        std::thread::yield_now();
                    }
                    ended.send(vec!["nothing".to_owned()])
                });
                let cut = end.await?;
                assert!(thread.join().is_ok());
                Ok(cut)
            },
        );
        let (result, _) = run(vec![Box::new(threaded)], true).await;
        result.unwrap();
    }
}
