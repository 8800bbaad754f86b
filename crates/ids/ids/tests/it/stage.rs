//! A Redis with a replica that can fall behind, and holders that are watched all the time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_clock::{BootClock, SystemClock};
use nagaya_ids::lease::{Holder, HolderOptions, Status, Window};
use nagaya_ids::permit::Permit;
use nagaya_ids::pool::Pool;
use nagaya_testkit::{Direction, Redis, TcpProxy, wait};
use tokio::sync::watch;

use crate::support::{make, pool_at, quick_timing};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Answers where the primary is, as a sentinel does, but at the test's word.
pub(crate) struct Signpost {
    address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    closed: Arc<AtomicBool>,
}

impl Signpost {
    pub(crate) fn to(target: SocketAddr) -> Signpost {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::new(Mutex::new(target));
        let closed = Arc::new(AtomicBool::new(false));
        let (shared, ended) = (target.clone(), closed.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                let mut request = [0; 1024];
                // One short request per connection comes in one piece on the loopback.
                if stream.read(&mut request).is_ok() {
                    let target: SocketAddr = *shared.lock().unwrap();
                    let port = target.port().to_string();
                    let reply = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
                    let _ = stream.write_all(reply.as_bytes());
                }
            }
        });
        Signpost {
            address,
            target,
            closed,
        }
    }

    pub(crate) fn point_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+sentinel://{}/main?ns=t", self.address)
    }
}

impl Drop for Signpost {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        // Wakes the thread, so that it sees that it is over.
        drop(std::net::TcpStream::connect(self.address));
    }
}

/// A primary and a replica with a link between them that can be cut.
pub(crate) struct Stage {
    pub(crate) primary: Redis,
    pub(crate) replica: Redis,
    pub(crate) link: TcpProxy,
    pub(crate) signpost: Signpost,
}

impl Stage {
    pub(crate) fn start(numbers: u64) -> Stage {
        let (primary, replica) = (Redis::start(), Redis::start());
        let link = TcpProxy::start(primary.address());
        replica.cmd(&["REPLICAOF", "127.0.0.1", &link.address().port().to_string()]);
        replica.wait_synced();
        let signpost = Signpost::to(primary.address());
        let stage = Stage {
            primary,
            replica,
            link,
            signpost,
        };
        crate::support::block_on(make(&stage.pool(), 1, numbers)).unwrap();
        stage.wait_replicated();
        stage
    }

    pub(crate) fn pool(&self) -> Pool {
        pool_at(&self.signpost.url())
    }

    /// Waits until the replica has all that the primary has.
    pub(crate) fn wait_replicated(&self) {
        wait::until("the replica has everything", PATIENCE, || {
            let offset = self.primary.info("master_repl_offset");
            offset.is_some() && offset == self.replica.info("slave_repl_offset")
        });
    }

    /// From here on the replica gets nothing.
    pub(crate) fn cut_replication(&self) {
        self.link.cut(Direction::Both);
    }

    /// The primary dies and the replica takes over with what it has.
    pub(crate) fn fail_over(&self) {
        self.primary.kill9();
        self.replica.cmd(&["REPLICAOF", "NO", "ONE"]);
        self.signpost.point_to(self.replica.address());
    }
}

pub(crate) fn options(name: &str) -> HolderOptions {
    HolderOptions {
        name: Some(name.into()),
        timing: quick_timing(),
        ..HolderOptions::default()
    }
}

pub(crate) fn start(pool: Pool, name: &str) -> Holder {
    Holder::start(pool, options(name)).unwrap()
}

/// Waits until a holder may use a number.
pub(crate) async fn opened(holder: &Holder) -> Arc<Window> {
    tokio::time::timeout(PATIENCE, holder.window())
        .await
        .expect("a window in time")
        .unwrap()
}

/// Waits until a holder's status satisfies a condition.
pub(crate) async fn reaches(holder: &Holder, what: &str, condition: impl FnMut(&Status) -> bool) -> Status {
    let mut status = holder.status();
    let waiting = status.wait_for(condition);
    let reached = tokio::time::timeout(PATIENCE, waiting).await;
    reached
        .unwrap_or_else(|_| panic!("not in time: {what}"))
        .unwrap()
        .clone()
}

pub(crate) fn is_usable(window: &Window) -> bool {
    window.check(SystemClock.now()).is_ok()
}

/// Looks all the time whether two holders may use one number.
pub(crate) struct Watchman {
    statuses: Arc<Mutex<Vec<watch::Receiver<Status>>>>,
    windows: Arc<Mutex<Vec<Arc<Window>>>>,
    task: tokio::task::JoinHandle<()>,
    done: Arc<AtomicBool>,
}

impl Watchman {
    pub(crate) fn begin(holders: &[&Holder]) -> Watchman {
        let windows = Arc::new(Mutex::new(Vec::<Arc<Window>>::new()));
        let done = Arc::new(AtomicBool::new(false));
        let statuses: Vec<_> = holders.iter().map(|holder| holder.status()).collect();
        let statuses = Arc::new(Mutex::new(statuses));
        let (seen, ended, followed) = (windows.clone(), done.clone(), statuses.clone());
        let task = tokio::spawn(async move {
            let mut last_look = false;
            while !last_look {
                last_look = ended.load(Ordering::SeqCst);
                for status in followed.lock().unwrap().iter_mut() {
                    if let Status::Open(window) = &*status.borrow_and_update() {
                        let mut seen = seen.lock().unwrap();
                        if !seen.iter().any(|known| Arc::ptr_eq(known, window)) {
                            seen.push(window.clone());
                        }
                    }
                }
                check_exclusive(&seen.lock().unwrap());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Watchman {
            statuses,
            windows,
            task,
            done,
        }
    }

    pub(crate) fn follow(&self, holder: &Holder) {
        self.statuses.lock().unwrap().push(holder.status());
    }

    /// Ends the watch; panics if two were seen with one number.
    pub(crate) async fn end(self) -> Vec<Arc<Window>> {
        self.done.store(true, Ordering::SeqCst);
        self.task.await.unwrap();
        self.windows.lock().unwrap().clone()
    }
}

fn check_exclusive(windows: &[Arc<Window>]) {
    let now = SystemClock.now();
    let open: Vec<_> = windows
        .iter()
        .filter(|window| window.check(now).is_ok())
        .collect();
    for (at, window) in open.iter().enumerate() {
        for other in &open[at + 1..] {
            assert_ne!(
                window.worker(),
                other.worker(),
                "fences {} and {}",
                window.fence(),
                other.fence()
            );
        }
    }
}
