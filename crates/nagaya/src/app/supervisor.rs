//! Runs the components together: one fails, it is started again; told to stop, all stop in order.
//!
//! Components are listed with what others depend on first and are started in that order.
//! At the end all are told to drain at once, and then, from the last to the first, each is
//! told to stop and waited for. One deadline spans all of that. When it passes, everything
//! still open is cut, and components get a last short moment to say what they cut.
//!
//! A component that ends after it was ready, and that can be run once more, is started again
//! after a pause, which grows from failure to failure; the others go on meanwhile. One that
//! was never ready is set up wrongly, and one that owns data which others share (the room)
//! cannot be run once more: those end the server.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::anyhow;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::app::readiness::{Readiness, State};
use crate::app::service::{Service, Shutdown};

/// How long components may take to end after their open work was cut.
const CUT_GRACE: Duration = Duration::from_secs(2);

/// The first pause before a component is started again, and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A component that ran for this long has recovered: its next failure is a first one.
const RECOVERED_AFTER: Duration = Duration::from_secs(300);

/// The components and how they end.
pub(crate) struct Supervisor {
    services: Vec<Box<dyn Service>>,
    readiness: Readiness,
    drain_timeout: Duration,
    restarts: bool,
}

/// The components once started.
struct Started {
    tasks: JoinSet<anyhow::Result<Vec<String>>>,
    /// Which component a task is; a task that has ended is gone from here.
    running: HashMap<Id, usize>,
    components: Vec<StartedComponent>,
    readiness: Readiness,
    cut: Vec<String>,
    failure: Option<anyhow::Error>,
}

struct StartedComponent {
    name: &'static str,
    shutdown: Shutdown,
    /// To be run should this run fail.
    spare: Option<Box<dyn Service>>,
    started: Instant,
    /// Failures in a row.
    failures: u32,
    /// When it is to be started again.
    restart_at: Option<Instant>,
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
            restarts: false,
        }
    }

    /// Starts components again that fail after they were ready. Otherwise the first failure ends all.
    pub(crate) fn restarting(self) -> Supervisor {
        Supervisor {
            restarts: true,
            ..self
        }
    }

    /// Runs until `stop` is cancelled or a component ends for good, then until all have ended.
    ///
    /// `on_ready` is called once, when all components are ready. Returns the first failure.
    pub(crate) async fn run(self, stop: CancellationToken, on_ready: impl FnOnce()) -> anyhow::Result<()> {
        let Supervisor {
            services,
            readiness,
            drain_timeout,
            restarts,
        } = self;
        let mut started = Started::start(services, readiness.clone(), restarts);
        let mut on_ready = Some(on_ready);
        loop {
            let restart_at = started.next_restart();
            tokio::select! {
                () = stop.cancelled() => break,
                ended = started.next_end() => {
                    let Some((index, ended)) = ended else { break };
                    let name = started.components[index].name;
                    let failure = ended.err().unwrap_or_else(|| anyhow!("{name} ended by itself"));
                    if let Some(failure) = started.put_off(index, failure) {
                        started.fail(failure);
                        break;
                    }
                }
                () = sleep_until(restart_at.unwrap_or_else(Instant::now)), if restart_at.is_some() => {
                    started.start_due(Instant::now());
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

/// Returns how long to wait before a component is started again after so many failures in a row.
fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX)
}

impl Started {
    fn start(services: Vec<Box<dyn Service>>, readiness: Readiness, restarts: bool) -> Started {
        let shutdown = Shutdown::default();
        let component = |name: &'static str| StartedComponent {
            name,
            shutdown: shutdown.sibling(),
            spare: None,
            started: Instant::now(),
            failures: 0,
            restart_at: None,
        };
        let mut started = Started {
            tasks: JoinSet::new(),
            running: HashMap::new(),
            components: services.iter().map(|service| component(service.name())).collect(),
            readiness,
            cut: Vec::new(),
            failure: None,
        };
        for (index, service) in services.into_iter().enumerate() {
            started.components[index].spare = service.again().filter(|_| restarts);
            started.spawn(index, service);
        }
        started
    }

    fn spawn(&mut self, index: usize, service: Box<dyn Service>) {
        let component = &mut self.components[index];
        component.started = Instant::now();
        let shutdown = component.shutdown.clone();
        let ready = self.readiness.handle(index);
        let task = self.tasks.spawn(service.run(shutdown, ready));
        self.running.insert(task.id(), index);
    }

    /// Waits for the next component to end and records its result. Cancel safe.
    async fn next_end(&mut self) -> Option<(usize, anyhow::Result<()>)> {
        let (id, result) = match self.tasks.join_next_with_id().await {
            Some(Ok((id, result))) => (id, result),
            Some(Err(panic)) => (panic.id(), Err(describe_panic(&panic))),
            // All wait for being started again.
            None if self.next_restart().is_some() => return std::future::pending().await,
            None => return None,
        };
        let index = self
            .running
            .remove(&id)
            .expect("each task is booked when it is spawned");
        let name = self.components[index].name;
        match result {
            Ok(cut) => {
                self.readiness.set(index, State::Stopped);
                self.cut
                    .extend(cut.into_iter().map(|what| format!("{name}: {what}")));
                Some((index, Ok(())))
            }
            Err(failure) => {
                self.readiness.set(index, State::Failed);
                Some((index, Err(failure.context(format!("{name} failed")))))
            }
        }
    }

    /// Has a component that has ended started again later. Returns the failure if that cannot be.
    fn put_off(&mut self, index: usize, failure: anyhow::Error) -> Option<anyhow::Error> {
        let was_ready = self.readiness.was_ready(index);
        let component = &mut self.components[index];
        if component.spare.is_none() || !was_ready {
            return Some(failure);
        }
        let now = Instant::now();
        if now - component.started >= RECOVERED_AFTER {
            component.failures = 0;
        }
        component.failures += 1;
        let pause = pause_after(component.failures);
        component.restart_at = Some(now + pause);
        let failure = format!("{failure:#}");
        error!(
            component = component.name,
            error = failure,
            ?pause,
            "a component failed and is started again"
        );
        let detail = format!("{failure}; started again {} s later", pause.as_secs());
        self.readiness.set_failed(index, detail);
        None
    }

    /// Returns when the next component is to be started again.
    fn next_restart(&self) -> Option<Instant> {
        self.components
            .iter()
            .filter_map(|component| component.restart_at)
            .min()
    }

    /// Starts the components again whose pause is over.
    fn start_due(&mut self, now: Instant) {
        for index in 0..self.components.len() {
            let component = &mut self.components[index];
            if component.restart_at.is_none_or(|at| at > now) {
                continue;
            }
            component.restart_at = None;
            let Some(service) = component.spare.take() else {
                continue;
            };
            component.spare = service.again();
            info!(component = component.name, "starting again");
            self.readiness.count_restart(index);
            self.spawn(index, service);
        }
    }

    /// Keeps the first failure, which is the cause; later ones are usually consequences.
    fn fail(&mut self, failure: anyhow::Error) {
        error!(error = format!("{failure:#}"), "a component failed");
        self.failure.get_or_insert(failure);
    }

    async fn finish(mut self, drain_timeout: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + drain_timeout;
        for component in &mut self.components {
            component.restart_at = None;
            // It may hold a listener open that is to be closed.
            component.spare = None;
        }
        self.readiness.set_draining();
        if let Some(component) = self.components.first() {
            component.shutdown.begin_draining();
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

    /// Waits for the next component to end; its failure is the server's.
    async fn note_end(&mut self) -> Option<()> {
        if let (_, Err(failure)) = self.next_end().await? {
            self.fail(failure);
        }
        Some(())
    }

    async fn stop_in_turn(&mut self) {
        for index in (0..self.components.len()).rev() {
            self.components[index].shutdown.tell_stop();
            while self.running.values().any(|running| *running == index) {
                self.note_end().await;
            }
        }
    }

    async fn cut_all(&mut self) {
        for component in &self.components {
            component.shutdown.tell_cut();
            component.shutdown.tell_stop();
        }
        let all_ended = async { while self.note_end().await.is_some() {} };
        if timeout_at(Instant::now() + CUT_GRACE, all_ended).await.is_err() {
            let late = self.running.values().map(|index| self.components[*index].name);
            let late = late.collect::<Vec<_>>().join(", ");
            self.fail(anyhow!("{late} did not stop"));
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

    /// A component that is ready, then does what its test says each time it is run, and can be run again.
    #[derive(Clone)]
    struct Phoenix {
        name: &'static str,
        runs: Arc<Mutex<Vec<Instant>>>,
        fails: u32,
    }

    impl Service for Phoenix {
        fn name(&self) -> &'static str {
            self.name
        }

        fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
            Box::pin(async move {
                let run = {
                    let mut runs = self.runs.lock().unwrap();
                    runs.push(Instant::now());
                    runs.len() as u32
                };
                ready.ready();
                match run {
                    run if run > self.fails => {
                        shutdown.stopped().await;
                        Ok(Vec::new())
                    }
                    run if run % 2 == 0 => panic!("on purpose"),
                    _ => Err(anyhow!("out of paper")),
                }
            })
        }

        fn again(&self) -> Option<Box<dyn Service>> {
            Some(Box::new(self.clone()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_component_that_fails_is_started_again_with_growing_pauses_while_others_go_on() {
        let log = Log::default();
        let runs = Arc::default();
        let phoenix = Phoenix {
            name: "phoenix",
            runs: Arc::clone(&runs),
            fails: 3,
        };
        let services: Vec<Box<dyn Service>> = vec![until_stopped("core", &log), Box::new(phoenix)];
        let readiness = Readiness::new(&["core", "phoenix"]);
        let supervisor = Supervisor::new(services, readiness.clone(), Duration::from_secs(10)).restarting();
        let stop = CancellationToken::new();
        let running = tokio::spawn(supervisor.run(stop.clone(), || ()));
        tokio::time::sleep(Duration::from_millis(500)).await;
        let component = readiness.snapshot()[1].clone();
        assert_eq!(component.state, State::Failed);
        let detail = component.detail.unwrap();
        assert!(detail.contains("phoenix failed: out of paper"), "{detail}");
        assert_eq!(readiness.snapshot()[0].state, State::Ready);
        tokio::time::sleep(Duration::from_secs(30)).await;
        let starts = runs.lock().unwrap().clone();
        let pauses: Vec<u64> = starts
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4]);
        let component = readiness.snapshot()[1].clone();
        assert_eq!((component.state, component.restarts), (State::Ready, 3));
        assert!(log.lock().unwrap().is_empty(), "the others have not ended");
        stop.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(*log.lock().unwrap(), ["core"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_during_a_pause_ends_at_once_and_well() {
        let phoenix = Phoenix {
            name: "phoenix",
            runs: Arc::default(),
            fails: u32::MAX,
        };
        let readiness = Readiness::new(&["phoenix"]);
        let supervisor =
            Supervisor::new(vec![Box::new(phoenix)], readiness, Duration::from_secs(10)).restarting();
        let stop = CancellationToken::new();
        let running = tokio::spawn(supervisor.run(stop.clone(), || ()));
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.cancel();
        let ended = tokio::time::timeout(Duration::from_millis(100), running).await;
        ended.unwrap().unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_component_that_was_never_ready_is_not_started_again() {
        /// Fails before it is ready.
        #[derive(Clone)]
        struct Misfit;
        impl Service for Misfit {
            fn name(&self) -> &'static str {
                "misfit"
            }
            fn run(self: Box<Self>, _: Shutdown, _: Ready) -> Running {
                Box::pin(async { Err(anyhow!("no such file")) })
            }
            fn again(&self) -> Option<Box<dyn Service>> {
                Some(Box::new(self.clone()))
            }
        }
        let readiness = Readiness::new(&["misfit"]);
        let supervisor = Supervisor::new(vec![Box::new(Misfit)], readiness, Duration::from_secs(10));
        let ended = supervisor.restarting().run(CancellationToken::new(), || ()).await;
        assert_eq!(format!("{:#}", ended.unwrap_err()), "misfit failed: no such file");
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let pauses = [1, 2, 3, 6, 7, 8, 1000].map(|failures| pause_after(failures).as_secs());
        assert_eq!(pauses, [1, 2, 4, 32, 60, 60, 60]);
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
