//! Registers sockets for readiness events.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::event::epoll;

use super::transport::Transport;

/// A handle to a worker's epoll instance.
#[derive(Clone)]
pub(crate) struct Watcher(pub(crate) Rc<OwnedFd>);

impl Watcher {
    pub(crate) fn new() -> std::io::Result<Watcher> {
        Ok(Watcher(Rc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?)))
    }

    /// Has the kernel report changes of a socket under this token; returns false if it refuses.
    pub(crate) fn watch(&self, transport: &Transport, token: u64) -> bool {
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.0, transport, epoll::EventData::new_u64(token), flags).is_ok()
    }
}
