//! The thread that accepts connections for the others.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::inbox::Waker;
use crate::listener::Listener;
use crate::transport::Transport;

/// The pause after a failed accept. Mostly the process is out of descriptors, and the listener stays
/// readable: without a pause the thread would spin.
const FAILED_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections and hands them to `admit` until `stop` is set; [`Waker::wake`] ends the wait
/// then.
pub fn accept_loop(
    listeners: &[Listener],
    stop: &AtomicBool,
    waker: &Waker,
    mut admit: impl FnMut(Transport),
) {
    let mut watched: Vec<PollFd<'_>> = Vec::with_capacity(listeners.len() + 1);
    watched.extend(
        listeners
            .iter()
            .map(|listener| PollFd::new(listener, PollFlags::IN)),
    );
    watched.push(PollFd::new(waker, PollFlags::IN));
    while !stop.load(Ordering::SeqCst) {
        if poll(&mut watched, None).is_err() {
            // It was interrupted.
            continue;
        }
        for (listener, watched) in listeners.iter().zip(&watched) {
            if watched.revents().is_empty() {
                continue;
            }
            match listener.accept() {
                Ok(transport) => admit(transport),
                Err(error) if is_passing(error.kind()) => {}
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    std::thread::park_timeout(FAILED_PAUSE);
                }
            }
        }
    }
}

/// Returns whether the next accept is worth trying at once.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_connection_of_every_listener_is_admitted_until_the_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listeners = [
            Listener::tcp("127.0.0.1:0", None).unwrap(),
            Listener::unix(&path).unwrap(),
        ];
        let address = listeners[0].tcp_address().unwrap();
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), Arc::new(Waker::new().unwrap()));
        let (sender, admitted) = mpsc::channel();
        let (thread_stop, thread_waker) = (Arc::clone(&stop), Arc::clone(&waker));
        let thread = std::thread::spawn(move || {
            accept_loop(&listeners, &thread_stop, &thread_waker, |mut transport| {
                transport.write(b"hello").unwrap();
                sender.send(transport).unwrap();
            });
        });
        for _ in 0..50 {
            let mut bytes = [0; 5];
            TcpStream::connect(address)
                .unwrap()
                .read_exact(&mut bytes)
                .unwrap();
            assert_eq!(&bytes, b"hello");
            let mut client = UnixStream::connect(&path).unwrap();
            client.read_exact(&mut bytes).unwrap();
            client.write_all(b"bye").unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        waker.wake();
        thread.join().unwrap();
        assert_eq!(admitted.iter().count(), 100);
        assert!(!path.exists());
    }
}
