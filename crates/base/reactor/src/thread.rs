//! Threads that a process cannot serve without.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

/// Starts a thread of a service. A panic in it ends the process.
///
/// The connections of a dead I/O thread would hang for ever, and the acceptor would go on handing it new
/// ones. A process that ends is restarted, and its clients connect again.
pub fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let thread = name.clone();
    std::thread::Builder::new().name(name).spawn(move || {
        // Nothing is used after a panic, so no broken state can be seen.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            tracing::error!(
                thread,
                panic = message(&*payload),
                "a thread panicked, the process ends"
            );
            // Not `exit`: it runs handlers while the other threads go on, and may wait for one of them.
            std::process::abort();
        }
    })
}

/// Returns what a panic was raised with, if that is text.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set in the child process that panics.
    const CHILD: &str = "NAGAYA_REACTOR_TEST_CHILD";

    #[test]
    fn a_panic_is_logged_and_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(io::stderr)
                .init();
            let thread = spawn("io-7".to_owned(), || panic!("slot {} is gone", 3)).unwrap();
            // If this is reached, the child passes, which fails the test.
            thread.join().ok();
            return;
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "thread::tests::a_panic_is_logged_and_ends_the_process"])
            .arg("--nocapture")
            .env(CHILD, "1")
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&child.stderr);
        assert!(!child.status.success(), "{log}");
        let line = log.lines().find(|line| line.contains("the process ends"));
        let line = line.unwrap_or_else(|| panic!("{log}"));
        assert!(line.contains("ERROR"), "{line}");
        assert!(line.contains(r#"thread="io-7""#), "{line}");
        assert!(line.contains(r#"panic="slot 3 is gone""#), "{line}");
    }

    #[test]
    fn a_thread_that_ends_well_ends_alone() {
        let thread = spawn("io-1".to_owned(), || ()).unwrap();
        assert!(thread.join().is_ok());
    }
}
