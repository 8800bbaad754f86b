//! Threads and tasks that a process cannot serve without: a panic in one of them ends the process.
//!
//! The connections of a dead I/O thread would hang for ever while the acceptor goes on handing it new ones; a
//! dead saver would let the log grow; a dead batcher would take calls that nobody answers. A process that ends is
//! started again, and its clients connect again. What serves a single connection or request is not of this kind:
//! its panic is that request's failure.

mod account;

pub use account::{Account, OnAccount, account, on_account};

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

/// Starts a thread of a service, on the account of the calling thread. A panic in it ends the process.
pub fn spawn(name: impl Into<String>, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let name = name.into();
    let thread = name.clone();
    let account = account();
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the place that others are to use"
    )]
    std::thread::Builder::new().name(name).spawn(move || {
        let _stay = on_account(account);
        // Nothing is used after a panic, so no broken state can be seen.
        let ended = catch_unwind(AssertUnwindSafe(|| {
            panic_point(&thread);
            work();
        }));
        if let Err(payload) = ended {
            end_process(&thread, &*payload);
        }
    })
}

/// Makes a task of a service: a panic in it ends the process.
pub fn vital<F: Future>(name: &'static str, work: F) -> Vital<F> {
    Vital {
        name,
        started: false,
        work: Box::pin(work),
    }
}

/// A future whose panic ends the process.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Vital<F> {
    name: &'static str,
    started: bool,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for Vital<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let is_first = !std::mem::replace(&mut self.started, true);
        let name = self.name;
        let polled = catch_unwind(AssertUnwindSafe(|| {
            if is_first {
                panic_point(name);
            }
            self.work.as_mut().poll(context)
        }));
        polled.unwrap_or_else(|payload| end_process(name, &*payload))
    }
}

/// Logs a panic of something that the process cannot serve without, and ends the process.
fn end_process(name: &str, payload: &(dyn Any + Send)) -> ! {
    tracing::error!(
        thread = name,
        panic = panic_message(payload),
        "a thread panicked, the process ends"
    );
    // Not `exit`: it runs handlers while the other threads go on, and may wait for one of them.
    std::process::abort()
}

/// Returns what a panic was raised with, if that is text.
pub fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Panics if a test has asked for it: the environment variable `NAGAYA_TEST_PANIC_IN` is this name, or the name,
/// a colon and how often. Without the feature `panic-injection` this is nothing.
#[cfg(feature = "panic-injection")]
pub fn panic_point(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static PANICKED: AtomicU32 = AtomicU32::new(0);
    let Ok(wanted) = std::env::var("NAGAYA_TEST_PANIC_IN") else {
        return;
    };
    let (wanted, times) = match wanted.rsplit_once(':') {
        Some((wanted, times)) => (wanted, times.parse().unwrap_or(0)),
        None => (wanted.as_str(), u32::MAX),
    };
    if wanted == name && PANICKED.fetch_add(1, Ordering::Relaxed) < times {
        panic!("{name} was told to panic");
    }
}

/// Panics if a test has asked for it, which none can of this build.
#[cfg(not(feature = "panic-injection"))]
pub fn panic_point(_name: &str) {}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::task::Waker;

    use super::*;

    /// Set in the child process that panics.
    const CHILD: &str = "NAGAYA_THREADS_TEST_CHILD";

    /// Runs a test of this file again in a process of its own and returns its log, after a bad end.
    fn log_of_child(test: &str) -> String {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(!child.status.success(), "{log}");
        let line = log.lines().find(|line| line.contains("the process ends"));
        line.unwrap_or_else(|| panic!("{log}")).to_owned()
    }

    fn is_child() -> bool {
        let is_child = std::env::var_os(CHILD).is_some();
        if is_child {
            tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(io::stderr)
                .init();
        }
        is_child
    }

    #[test]
    fn a_panic_on_a_thread_is_logged_and_ends_the_process() {
        if is_child() {
            let thread = spawn("io-7", || panic!("slot {} is gone", 3)).unwrap();
            // If this is reached, the child passes, which fails the test.
            thread.join().ok();
            return;
        }
        let line = log_of_child("tests::a_panic_on_a_thread_is_logged_and_ends_the_process");
        assert!(line.contains("ERROR"), "{line}");
        assert!(line.contains(r#"thread="io-7""#), "{line}");
        assert!(line.contains(r#"panic="slot 3 is gone""#), "{line}");
    }

    #[test]
    fn a_panic_in_a_task_is_logged_and_ends_the_process() {
        if is_child() {
            let mut task = vital("counting", async { panic!("out of fingers") });
            let poll = || {
                Pin::new(&mut task)
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_ready()
            };
            catch_unwind(AssertUnwindSafe(poll)).ok();
            return;
        }
        let line = log_of_child("tests::a_panic_in_a_task_is_logged_and_ends_the_process");
        assert!(line.contains(r#"thread="counting""#), "{line}");
        assert!(line.contains(r#"panic="out of fingers""#), "{line}");
    }

    #[test]
    fn what_ends_well_ends_alone() {
        let thread = spawn("io-1", || ()).unwrap();
        assert!(thread.join().is_ok());
        let mut task = vital("adding", async { 1 + 1 });
        let polled = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(2));
    }
}
