//! The permit that a lease hands out: one per grant, moved forward by every renewal.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::lease::state_dir::StateFile;
use crate::permit::{Ceiling, Permit, Stop};
use nagaya_clock::BootTime;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The right to use a number until some moment. Renewals move that moment on; once ended it never
/// opens again.
#[derive(Debug)]
pub struct Window {
    number: u64,
    fence: u64,
    floor_ms: u64,
    until_nanos: AtomicU64,
    ceil_ms: AtomicU64,
    last_ms: AtomicU64,
    ended: AtomicBool,
    /// Wakes the one task that acts on each move of the end.
    moved: Notify,
    /// Where the last issued time is kept for our own next start. Locked over a write of a few
    /// hundred bytes, at most once per millisecond.
    local: Option<Mutex<StateFile>>,
}

impl Window {
    pub(crate) fn new(
        number: u64,
        fence: u64,
        floor_ms: u64,
        until: BootTime,
        ceil_ms: u64,
        local: Option<StateFile>,
    ) -> Window {
        Window {
            number,
            fence,
            floor_ms,
            until_nanos: AtomicU64::new(until.as_nanos()),
            ceil_ms: AtomicU64::new(ceil_ms),
            last_ms: AtomicU64::new(floor_ms),
            ended: AtomicBool::new(false),
            moved: Notify::new(),
            local: local.map(Mutex::new),
        }
    }

    /// Returns when the window ends unless it is renewed.
    pub fn until(&self) -> BootTime {
        BootTime::from_nanos(self.until_nanos.load(Ordering::SeqCst))
    }

    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Moves the end on after a confirmed renewal.
    pub(crate) fn extend(&self, until: BootTime, ceil_ms: u64) {
        self.ceil_ms.fetch_max(ceil_ms, Ordering::SeqCst);
        self.until_nanos.fetch_max(until.as_nanos(), Ordering::SeqCst);
        self.moved.notify_one();
    }

    /// Waits until a renewal has moved the end since the last call, or the window has ended. For one task at a time.
    /// Cancel safe.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }

    /// Notes the wall clock that a command has seen, and how far it is ahead of the boot clock. Only the last
    /// time is needed at the release, so a failure to save it is logged and no more.
    pub(crate) fn note_wall(&self, unix_ms: u64, offset_ms: u64) {
        self.last_ms.fetch_max(unix_ms, Ordering::SeqCst);
        if let Some(local) = &self.local {
            let mut local = local.lock();
            local.note_offset(offset_ms);
            if let Err(error) = local.save_last(unix_ms) {
                tracing::warn!(%error, "last time of the command not saved");
            }
        }
    }

    /// Ends the window for good and returns the highest time that was or will ever be issued under
    /// it: `note_issued` fails from now on.
    pub(crate) fn end(&self) -> u64 {
        self.ended.store(true, Ordering::SeqCst);
        self.moved.notify_one();
        self.last_ms.load(Ordering::SeqCst)
    }
}

impl Permit for Window {
    fn worker(&self) -> u64 {
        self.number
    }

    fn fence(&self) -> u64 {
        self.fence
    }

    fn floor_ms(&self) -> u64 {
        self.floor_ms
    }

    fn check(&self, now: BootTime) -> Result<Ceiling, Stop> {
        if self.is_ended() {
            return Err(Stop::Lost);
        }
        let until = self.until();
        if now >= until {
            let late = now.since(until).max(Duration::from_nanos(1));
            return Err(Stop::Late { late });
        }
        let unix_ms = self.ceil_ms.load(Ordering::SeqCst);
        Ok(Ceiling { unix_ms })
    }

    fn note_issued(&self, last_ms: u64) -> Result<(), Stop> {
        let before = self.last_ms.fetch_max(last_ms, Ordering::SeqCst);
        // In the one order of all these steps, either `end` comes after the line above and returns
        // this time, or it came before and is seen here.
        if self.is_ended() {
            return Err(Stop::Lost);
        }
        let Some(local) = self.local.as_ref().filter(|_| last_ms > before) else {
            return Ok(());
        };
        let mut local = local.lock();
        local.save_last(last_ms).map_err(|error| {
            tracing::error!(%error, "last issued time not saved");
            Stop::NotSaved
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        Window::new(3, 9, 100, BootTime::from_nanos(50), 500, None)
    }

    #[test]
    fn it_is_open_until_its_end_and_after_a_renewal_again() {
        let window = window();
        assert_eq!(
            window.check(BootTime::from_nanos(49)),
            Ok(Ceiling { unix_ms: 500 })
        );
        assert!(matches!(
            window.check(BootTime::from_nanos(50)),
            Err(Stop::Late { .. })
        ));
        window.extend(BootTime::from_nanos(80), 700);
        assert_eq!(
            window.check(BootTime::from_nanos(79)),
            Ok(Ceiling { unix_ms: 700 })
        );
    }

    #[test]
    fn an_ended_window_names_the_last_time_and_never_opens_again() {
        let window = window();
        assert_eq!(window.note_issued(300), Ok(()));
        assert_eq!(window.note_issued(200), Ok(()));
        assert_eq!(window.end(), 300);
        window.extend(BootTime::from_nanos(999), 999);
        assert_eq!(window.check(BootTime::ZERO), Err(Stop::Lost));
        assert_eq!(window.note_issued(301), Err(Stop::Lost));
    }

    #[test]
    fn without_any_id_the_last_time_is_the_floor() {
        assert_eq!(window().end(), 100);
    }
}
