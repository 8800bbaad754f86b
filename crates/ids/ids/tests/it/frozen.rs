//! A server process that is frozen past the end of its lease and woken again.
//!
//! The test plays the store: the process' number is good for a time after each `renew` line.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nagaya_clock::BootTime;
use nagaya_clock::{BootClock, SystemClock};
use nagaya_ids::id_clock::RunningClock;
use nagaya_ids::layout::Layout;
use nagaya_ids::mint::Mint;
use nagaya_ids::server::{ListenAddress, Listener, Server, ServerConfig, Stats};
use nagaya_ids::{Ceiling, Permit, Stop};
use nagaya_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};

const CHILD: &str = "NAGAYA_IDS_FROZEN_CHILD";
/// Long enough for a loaded machine to renew and ask within it.
const WINDOW: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(60);

/// The permit of the process under test.
#[derive(Default)]
struct Window {
    until_nanos: AtomicU64,
}

impl Permit for Window {
    fn worker(&self) -> u64 {
        7
    }

    fn fence(&self) -> u64 {
        1
    }

    fn floor_ms(&self) -> u64 {
        0
    }

    fn check(&self, now: BootTime) -> Result<Ceiling, Stop> {
        let until = BootTime::from_nanos(self.until_nanos.load(Ordering::SeqCst));
        if now > until {
            return Err(Stop::Late {
                late: now.since(until),
            });
        }
        Ok(Ceiling { unix_ms: u64::MAX })
    }

    fn note_issued(&self, _last_ms: u64) -> Result<(), Stop> {
        Ok(())
    }
}

/// The process under test; does nothing when it is not started by the other test.
#[test]
fn child_of_the_freeze() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mint = Arc::new(Mint::new(Layout::default(), RunningClock::system()));
    let window = Arc::new(Window::default());
    mint.set_permit(Some(Arc::clone(&window) as _));
    let stats = Arc::new(Stats::new(&mint, "frozen"));
    let listener = Listener::bind(&ListenAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let server = Server::start(vec![listener], ServerConfig::default(), mint, stats).unwrap();
    println!("\nlistening {}", server.addresses()[0]);
    for _ in std::io::stdin().lines().map_while(Result::ok) {
        let until = SystemClock.now() + WINDOW;
        window.until_nanos.store(until.as_nanos(), Ordering::SeqCst);
        println!("\nrenewed");
    }
}

struct Frozen {
    child: Child,
    orders: ChildStdin,
    said: mpsc::Receiver<String>,
}

impl Frozen {
    fn start() -> Frozen {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["frozen::child_of_the_freeze", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, said) = mpsc::channel();
        // Ends with the child's output.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                sender.send(line).ok();
            }
        });
        Frozen {
            orders: child.stdin.take().unwrap(),
            child,
            said,
        }
    }

    /// Waits for a line that begins so, and returns the rest of it.
    fn wait_for(&self, start: &str) -> String {
        loop {
            let line = self.said.recv_timeout(LIMIT).unwrap();
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    fn renew(&mut self) {
        self.orders.write_all(b"renew\n").unwrap();
        self.wait_for("renewed");
    }

    /// Stops every thread: the signal alone is only a wish.
    fn freeze(&self) {
        self.signal(Signal::STOP);
        wait::until("all threads are stopped", LIMIT, || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
            tasks.flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit_once(") ")
                    .is_some_and(|(_, rest)| rest.starts_with('T'))
            })
        });
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut byte = [0; 1];
    let is_whole =
        |text: &str| text.ends_with("END\r\n") || text.starts_with("SERVER_ERROR") && text.ends_with("\r\n");
    while !is_whole(&text) {
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0].into());
    }
    text
}

#[test]
fn a_process_woken_after_its_lease_gives_no_id_before_a_renewal() {
    let mut frozen = Frozen::start();
    let address: SocketAddr = frozen.wait_for("listening ").parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"get a\r\n").unwrap();
    assert!(answer(&mut stream).starts_with("SERVER_ERROR the lease of the number was not renewed"));
    frozen.renew();
    stream.write_all(b"get a\r\n").unwrap();
    assert!(answer(&mut stream).starts_with("VALUE a "));

    frozen.freeze();
    stream.write_all(b"get a b\r\n").unwrap();
    // The passing of time is what this test is about.
    std::thread::sleep(WINDOW + Duration::from_millis(100));
    frozen.signal(Signal::CONT);
    let woken = answer(&mut stream);
    assert!(
        woken.starts_with("SERVER_ERROR the lease of the number was not renewed"),
        "{woken}"
    );

    let before_ms = RunningClock::system().unix_ms();
    frozen.renew();
    stream.write_all(b"get a\r\n").unwrap();
    let text = answer(&mut stream);
    let id: u64 = text.lines().nth(1).unwrap().parse().unwrap();
    let made_ms = Layout::default().decode(id).unwrap().unix_ms;
    assert!(
        made_ms + 1000 >= before_ms,
        "stamped with a time before the freeze"
    );
}
