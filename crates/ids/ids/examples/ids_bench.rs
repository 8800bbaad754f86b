//! Measures the id maker and its memcached server against memcached's and Redis's counters,
//! in one run and in turns, so that a noisy machine is unkind to all of them alike.
//!
//! ```sh
//! cargo run --release -p nagaya-ids --example ids_bench [SECONDS [ROUNDS]]
//! ```
//!
//! Two shapes of load, sent by the same generator: 50 connections with one request under way
//! each, and one connection with 1600 ids or increments under way at a time. Prints the median
//! of the rounds per second and per second of the server's processor time (which other load on
//! the machine changes less), and ours divided by theirs.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::BootTime;
use nagaya_clock::{BootClock, SystemClock};
use nagaya_ids::FixedPermit;
use nagaya_ids::id_clock::RunningClock;
use nagaya_ids::layout::Layout;
use nagaya_ids::mint::Mint;
use nagaya_ids::server::{ListenAddress, Listener, Server, ServerConfig, Stats};
use nagaya_testkit::{Memcached, Process, Redis};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "serve") {
        return serve();
    }
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let duration = Duration::from_secs(number(0, 3)?);
    let rounds = usize::try_from(number(1, 5)?)?;
    in_process(duration);
    let ours = OurServer::start()?;
    let (memcached, redis) = (Memcached::start(), Redis::start());
    TcpStream::connect(memcached.address())?.write_all(b"set c 0 0 1\r\n0\r\n")?;
    let many: String = (0..100).map(|n| format!(" k{n}")).collect();
    let redis_incr = b"*2\r\n$4\r\nINCR\r\n$1\r\nc\r\n";
    let shapes = [
        Shape {
            name: "50 connections, one at a time",
            connections: 50,
            ours: Request::new(b"get id\r\n", 1, 3, 1),
            theirs: [
                Request::new(b"incr c 1\r\n", 1, 1, 1),
                Request::new(redis_incr, 1, 1, 1),
            ],
        },
        Shape {
            name: "1 connection, 1600 at a time",
            connections: 1,
            ours: Request::new(format!("get{many}\r\n").as_bytes(), 16, 201, 100),
            theirs: [
                Request::new(b"incr c 1\r\n", 1600, 1, 1),
                Request::new(redis_incr, 1600, 1, 1),
            ],
        },
    ];
    for shape in shapes {
        let [to_memcached, to_redis] = &shape.theirs;
        let pid = |process: &Process| process.pid().ok_or("a server has ended");
        let servers = [
            ("ids of ours", ours.address, ours.child.id(), &shape.ours),
            (
                "memcached incr",
                memcached.address(),
                pid(memcached.process())?,
                to_memcached,
            ),
            ("redis INCR", redis.address(), pid(redis.process())?, to_redis),
        ];
        let mut rounds_of = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (results, (_, address, pid, request)) in rounds_of.iter_mut().zip(&servers) {
                let cpu = process_cpu(*pid)?;
                let (done, spent) = load(*address, shape.connections, request, duration)?;
                let cpu = process_cpu(*pid)? - cpu;
                results.push((done / spent.as_secs_f64(), done / cpu.as_secs_f64()));
            }
        }
        println!("{}:", shape.name);
        let ours = medians(&rounds_of[0]);
        for ((name, ..), results) in servers.iter().zip(&rounds_of) {
            let (rate, per_cpu) = medians(results);
            let (by_rate, by_cpu) = (ours.0 / rate, ours.1 / per_cpu);
            println!("  {name:<15}{rate:>9.0}/s, ours / theirs {by_rate:.2}");
            println!(
                "  {:<15}{per_cpu:>9.0} per second of processor time, {by_cpu:.2}",
                ""
            );
        }
    }
    Ok(())
}

fn in_process(duration: Duration) {
    let mint = mint();
    let report = |name: &str, count: u64, started: BootTime, cpu: Duration| {
        let seconds = SystemClock.now().since(started).as_secs_f64();
        let (rate, nanos) = (count as f64 / seconds, cpu.as_nanos() as u64 / count);
        println!("{name:<28}{rate:>11.0}/s, {nanos} ns of processor time each");
    };
    let (started, cpu) = (SystemClock.now(), thread_cpu());
    let mut count = 0;
    while SystemClock.now().since(started) < duration {
        for _ in 0..1000 {
            mint.one().expect("a fixed number always has ids");
        }
        count += 1000;
    }
    report("in process, one by one:", count, started, thread_cpu() - cpu);
    let (started, cpu) = (SystemClock.now(), thread_cpu());
    let (mut count, mut ids) = (0, Vec::new());
    while SystemClock.now().since(started) < duration {
        ids.clear();
        mint.fill(1000, &mut ids).expect("a fixed number always has ids");
        count += 1000;
    }
    report("in process, 1000 at a time:", count, started, thread_cpu() - cpu);
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The processor time that all threads of a process have used.
fn process_cpu(pid: u32) -> Result<Duration, Failure> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += text
            .split(' ')
            .next()
            .ok_or("no time in schedstat")?
            .parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

fn mint() -> Arc<Mint> {
    let mint = Mint::new(Layout::default(), RunningClock::system());
    mint.set_permit(Some(Arc::new(FixedPermit::new(1))));
    Arc::new(mint)
}

/// The server process: tells its port and serves until its input ends.
fn serve() -> Result<(), Failure> {
    let mint = mint();
    let stats = Arc::new(Stats::new(&mint, "bench"));
    let listener = Listener::bind(&ListenAddress::Tcp("127.0.0.1:0".parse()?))?;
    let server = Server::start(vec![listener], ServerConfig::default(), mint, stats)?;
    println!("{}", server.addresses()[0]);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    Ok(())
}

struct OurServer {
    child: Child,
    address: SocketAddr,
}

impl OurServer {
    fn start() -> Result<OurServer, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().parse()?;
        Ok(OurServer { child, address })
    }
}

impl Drop for OurServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

struct Shape {
    name: &'static str,
    connections: usize,
    ours: Request,
    theirs: [Request; 2],
}

/// What a connection sends at a time.
struct Request {
    bytes: Vec<u8>,
    /// Lines of the whole answer.
    lines: usize,
    /// How many ids or increments it is worth.
    worth: u64,
}

impl Request {
    fn new(one: &[u8], depth: usize, lines: usize, worth: u64) -> Request {
        Request {
            bytes: one.repeat(depth),
            lines: lines * depth,
            worth: worth * depth as u64,
        }
    }
}

struct Connection {
    stream: TcpStream,
    lines_left: usize,
    unsent: usize,
}

/// Loads a server and returns what it did, and in what time.
fn load(
    address: SocketAddr,
    connections: usize,
    request: &Request,
    duration: Duration,
) -> Result<(f64, Duration), Failure> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut open = Vec::new();
    for at in 0..connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(
            &epoll,
            &stream,
            epoll::EventData::new_u64(at as u64),
            epoll::EventFlags::IN,
        )?;
        open.push(Connection {
            stream,
            lines_left: request.lines,
            unsent: request.bytes.len(),
        });
    }
    let started = SystemClock.now();
    for connection in &mut open {
        connection.send(request)?;
    }
    let (mut done, mut events, mut buffer) = (0, Vec::with_capacity(64), vec![0; 256 << 10]);
    loop {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let connection = &mut open[event.data.u64() as usize];
            done += connection.receive(request, &mut buffer)?;
        }
        let spent = SystemClock.now().since(started);
        if spent >= duration {
            return Ok((done as f64, spent));
        }
    }
}

impl Connection {
    fn send(&mut self, request: &Request) -> Result<(), Failure> {
        while self.unsent > 0 {
            match self
                .stream
                .write(&request.bytes[request.bytes.len() - self.unsent..])
            {
                Ok(count) => self.unsent -= count,
                // The rest follows when an answer shows that the server has read.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns what was finished.
    fn receive(&mut self, request: &Request, buffer: &mut [u8]) -> Result<u64, Failure> {
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        self.lines_left -= memchr::memchr_iter(b'\n', &buffer[..count]).count();
        let mut done = 0;
        if self.lines_left == 0 {
            done = request.worth;
            self.lines_left = request.lines;
            self.unsent = request.bytes.len();
        }
        self.send(request)?;
        Ok(done)
    }
}

/// The medians of both numbers, each on its own.
fn medians(results: &[(f64, f64)]) -> (f64, f64) {
    let median = |mut numbers: Vec<f64>| {
        numbers.sort_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    };
    let (rates, per_cpu): (Vec<f64>, Vec<f64>) = results.iter().copied().unzip();
    (median(rates), median(per_cpu))
}
