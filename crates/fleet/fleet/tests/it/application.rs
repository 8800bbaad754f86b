//! An application that keeps the rules which docs/fleet.md gives to those that are called over HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_clock::{BootTime, boot_now};
use serde_json::{Value, json};

/// A copy of a worker, from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) worker: String,
    pub(crate) epoch: u64,
    pub(crate) process: String,
    pub(crate) from: BootTime,
    pub(crate) end: Option<BootTime>,
    until: BootTime,
}

/// All copies in all applications of a test.
pub(crate) type Copies = Arc<Mutex<Vec<Copy>>>;

/// Panics if two copies of a worker ever ran at once.
pub(crate) fn check(copies: &Copies) {
    let mut copies = copies.lock().unwrap().clone();
    copies.sort_by_key(|copy| (copy.worker.clone(), copy.from));
    for pair in copies.windows(2).filter(|pair| pair[0].worker == pair[1].worker) {
        let is_over = pair[0].end.is_some_and(|end| end <= pair[1].from);
        assert!(is_over, "two copies: {pair:#?}");
        assert!(pair[0].epoch < pair[1].epoch, "epochs: {pair:#?}");
    }
}

#[derive(Clone)]
pub(crate) struct Application {
    state: Arc<Mutex<State>>,
    pub(crate) copies: Copies,
    address: SocketAddr,
}

struct State {
    process: String,
    lives: u32,
    has_marks: bool,
    /// Answers nobody.
    dead: bool,
    /// The highest epoch that was started or stopped, of each worker.
    highest: BTreeMap<String, u64>,
    told: Vec<(String, Value)>,
    /// Verbs that are answered with an error.
    broken: BTreeSet<String>,
    connections: usize,
    tokens: BTreeSet<String>,
}

impl Application {
    pub(crate) fn start(name: &str, copies: &Copies) -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = State {
            process: format!("{name}-1"),
            lives: 1,
            has_marks: true,
            dead: false,
            highest: BTreeMap::new(),
            told: Vec::new(),
            broken: BTreeSet::new(),
            connections: 0,
            tokens: BTreeSet::new(),
        };
        let application = Application {
            state: Arc::new(Mutex::new(state)),
            copies: copies.clone(),
            address: listener.local_addr().unwrap(),
        };
        let serving = application.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let serving = serving.clone();
                serving.state.lock().unwrap().connections += 1;
                std::thread::spawn(move || serving.serve(stream.unwrap()));
            }
        });
        let ending = application.clone();
        std::thread::spawn(move || {
            loop {
                ending.end_what_is_due();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        application
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/workers", self.address)
    }

    /// Stands for its clock, which has nothing to do with the agent's.
    fn clock_ms(moment: BootTime) -> u64 {
        moment.as_nanos() / 1_000_000 + 7_000_000_000
    }

    /// Rule 4: a worker has ended at its `until`.
    fn end_what_is_due(&self) {
        let process = self.state.lock().unwrap().process.clone();
        let now = boot_now();
        for copy in self.copies.lock().unwrap().iter_mut() {
            if copy.process == process && copy.end.is_none() && now >= copy.until {
                copy.end = Some(now.min(copy.until));
            }
        }
    }

    fn end_copies(&self, is_meant: impl Fn(&Copy) -> bool) {
        let now = boot_now();
        let process = self.state.lock().unwrap().process.clone();
        for copy in self.copies.lock().unwrap().iter_mut() {
            if copy.process == process && copy.end.is_none() && is_meant(copy) {
                copy.end = Some(now.min(copy.until));
            }
        }
    }

    /// Its process ends, and with it everything in it.
    pub(crate) fn die(&self) {
        self.state.lock().unwrap().dead = true;
        self.end_copies(|_| true);
    }

    /// A new process in its place.
    pub(crate) fn restart(&self) {
        self.end_copies(|_| true);
        let mut state = self.state.lock().unwrap();
        state.lives += 1;
        let name = state.process.split('-').next().unwrap().to_owned();
        state.process = format!("{name}-{}", state.lives);
        state.highest.clear();
        state.dead = false;
    }

    /// A worker ends by itself.
    pub(crate) fn fail(&self, worker: &str) {
        self.end_copies(|copy| copy.worker == worker);
    }

    pub(crate) fn without_marks(&self) {
        self.state.lock().unwrap().has_marks = false;
    }

    pub(crate) fn is_broken(&self, verb: &str, broken: bool) {
        let verbs = &mut self.state.lock().unwrap().broken;
        if broken {
            verbs.insert(verb.to_owned());
        } else {
            verbs.remove(verb);
        }
    }

    pub(crate) fn running(&self) -> usize {
        let process = self.state.lock().unwrap().process.clone();
        let copies = self.copies.lock().unwrap();
        let running = copies
            .iter()
            .filter(|copy| copy.process == process && copy.end.is_none());
        running.count()
    }

    pub(crate) fn told(&self) -> Vec<(String, Value)> {
        self.state.lock().unwrap().told.clone()
    }

    pub(crate) fn verbs(&self) -> Vec<String> {
        self.told().into_iter().map(|(verb, _)| verb).collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    pub(crate) fn tokens(&self) -> BTreeSet<String> {
        self.state.lock().unwrap().tokens.clone()
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        loop {
            let Some((head, body)) = read_request(&mut stream, &mut bytes) else {
                return;
            };
            // Rule 1: the mark is read when the answer begins, before anything is done.
            let mark = Application::clock_ms(boot_now());
            if self.state.lock().unwrap().dead {
                return;
            }
            let verb = head
                .split(' ')
                .nth(1)
                .unwrap()
                .rsplit('/')
                .next()
                .unwrap()
                .to_owned();
            let token = head.lines().find_map(|line| line.strip_prefix("authorization: "));
            let (status, answer) = {
                let mut state = self.state.lock().unwrap();
                state.tokens.insert(token.unwrap_or_default().to_owned());
                if state.broken.contains(&verb) {
                    state.told.push((verb.clone(), body.clone()));
                    ("500 Oops", String::new())
                } else {
                    drop(state);
                    self.answer(&verb, &body, mark, &mut stream)
                }
            };
            let close = if head.contains("connection: close") {
                "connection: close\r\n"
            } else {
                ""
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\n{close}content-length: {}\r\n\r\n{answer}",
                answer.len()
            );
            if stream.write_all(answer.as_bytes()).is_err() || !close.is_empty() {
                return;
            }
        }
    }

    fn answer(&self, verb: &str, body: &Value, mark: u64, stream: &mut TcpStream) -> (&'static str, String) {
        let worker = body["worker"].as_str().unwrap_or_default().to_owned();
        let epoch = body["epoch"].as_u64().unwrap_or(0);
        let mut status = "200 OK";
        let mut answer = json!({"process": self.state.lock().unwrap().process});
        if self.state.lock().unwrap().has_marks {
            answer["mark"] = mark.into();
        }
        match verb {
            "start" => {
                if self.begin(&worker, epoch, body) {
                    self.note_epoch(&worker, epoch);
                } else {
                    status = "409 Conflict";
                }
            }
            "stop" => {
                self.note_epoch(&worker, epoch);
                self.end_copies(|copy| copy.worker == worker && copy.epoch <= epoch);
            }
            "renew" => {
                self.extend(body);
                self.end_what_is_due();
                let process = self.state.lock().unwrap().process.clone();
                let copies = self.copies.lock().unwrap();
                let own = copies
                    .iter()
                    .filter(|copy| copy.process == process && copy.end.is_none());
                let own = own.map(|copy| json!({"worker": copy.worker, "epoch": copy.epoch}));
                answer["running"] = own.collect();
            }
            // Until the caller gives up.
            "request" if body["key"] == "hang" => drop(stream.read(&mut [0; 10])),
            "request" => {
                self.state
                    .lock()
                    .unwrap()
                    .told
                    .push((verb.to_owned(), body.clone()));
                return (status, format!("{} of {worker}", body["key"].as_str().unwrap()));
            }
            _ => (),
        }
        self.state
            .lock()
            .unwrap()
            .told
            .push((verb.to_owned(), body.clone()));
        (status, answer.to_string())
    }

    /// Rule 3: what was started or stopped with an epoch is not started with it or a lower one, and a start past its
    /// `until` is not obeyed.
    fn begin(&self, worker: &str, epoch: u64, body: &Value) -> bool {
        let until = Application::deadline(body);
        let state = self.state.lock().unwrap();
        let is_late = state.highest.get(worker).is_some_and(|highest| epoch <= *highest);
        let process = state.process.clone();
        drop(state);
        let mut copies = self.copies.lock().unwrap();
        let is_here = |copy: &Copy| copy.process == process && copy.worker == worker && copy.end.is_none();
        if is_late || copies.iter().any(is_here) || until <= boot_now() {
            return false;
        }
        copies.push(Copy {
            worker: worker.to_owned(),
            epoch,
            process,
            from: boot_now(),
            end: None,
            until,
        });
        true
    }

    fn note_epoch(&self, worker: &str, epoch: u64) {
        let mut state = self.state.lock().unwrap();
        let highest = state.highest.entry(worker.to_owned()).or_default();
        *highest = epoch.max(*highest);
    }

    /// Rule 5: a copy that is named with its epoch goes on until the given moment; the others keep their deadlines.
    fn extend(&self, body: &Value) {
        let process = self.state.lock().unwrap().process.clone();
        let named: BTreeMap<(String, u64), BootTime> = body["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                let worker = entry["worker"].as_str().unwrap().to_owned();
                (
                    (worker, entry["epoch"].as_u64().unwrap()),
                    Application::deadline(entry),
                )
            })
            .collect();
        for copy in self.copies.lock().unwrap().iter_mut() {
            let until = named.get(&(copy.worker.clone(), copy.epoch));
            if let Some(until) = until.filter(|_| copy.process == process && copy.end.is_none()) {
                copy.until = copy.until.max(*until);
            }
        }
    }

    fn deadline(entry: &Value) -> BootTime {
        match entry["until"].as_u64() {
            Some(until) => BootTime::from_millis(until.saturating_sub(7_000_000_000)),
            None => boot_now() + Duration::from_millis(entry["lease_ms"].as_u64().unwrap()),
        }
    }
}

fn read_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, Value)> {
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap().parse().unwrap();
            if body.len() >= length {
                let used = head.len() + 4 + length;
                let parsed = serde_json::from_str(&body[..length]).unwrap();
                bytes.drain(..used);
                return Some((head.to_owned(), parsed));
            }
        }
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
    }
}
