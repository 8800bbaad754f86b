//! Signals that this process receives.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A stream of some signals, instead of what the system does on them by default.
#[derive(Debug)]
pub struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    /// The signals that ask a process to stop.
    pub const STOP: [Signal; 2] = [Signal::INT, Signal::TERM];

    /// Catches these signals from now on. Must run inside a tokio runtime.
    pub fn listen(signals: &[Signal]) -> io::Result<Signals> {
        let open = |caught: &Signal| Ok((*caught, signal(SignalKind::from_raw(caught.as_raw()))?));
        Ok(Signals {
            streams: signals.iter().map(open).collect::<io::Result<_>>()?,
        })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Catches the signals that ask this process to stop, see [`Signals::STOP`].
    pub fn listen_for_stop() -> io::Result<Signals> {
        Signals::listen(&Signals::STOP)
    }

    /// Waits for the next signal and returns its name. Cancel safe.
    pub async fn next_name(&mut self) -> &'static str {
        signal_name(self.next().await)
    }
}

/// Returns the name of a signal, such as `SIGTERM`; `a signal` for one that is rarely caught.
pub fn signal_name(signal: Signal) -> &'static str {
    match signal {
        Signal::HUP => "SIGHUP",
        Signal::INT => "SIGINT",
        Signal::QUIT => "SIGQUIT",
        Signal::TERM => "SIGTERM",
        Signal::USR1 => "SIGUSR1",
        Signal::USR2 => "SIGUSR2",
        _ => "a signal",
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn signals_are_caught_from_the_moment_of_listening() {
        let mut signals = Signals::listen(&[Signal::USR1, Signal::USR2]).unwrap();
        kill_process(getpid(), Signal::USR2).unwrap();
        assert_eq!(signals.next().await, Signal::USR2);
        kill_process(getpid(), Signal::USR1).unwrap();
        assert_eq!(signals.next_name().await, "SIGUSR1");
    }
}
