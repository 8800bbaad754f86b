//! A host with a tiny keyspace, and a real server to compare with.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nagaya_lua::{Host, LibraryId, Limits, LogLevel, RunOutcome, Tick, Vm, parse_library_shebang, sha1_hex};
use nagaya_resp::{Out, Proto, encode_request, scan_frame};
use nagaya_testkit::Redis;

/// Knows PING, ECHO, GET, SET and INCR; counts ticks and may end the script at one.
#[derive(Default)]
pub(crate) struct FakeHost {
    pub(crate) data: HashMap<Vec<u8>, Vec<u8>>,
    pub(crate) log: Vec<(LogLevel, Vec<u8>)>,
    pub(crate) ticks: usize,
    pub(crate) kill_at: Option<usize>,
    pub(crate) repl: Option<i64>,
    /// Replies for the command RAW, which takes the reply's index.
    pub(crate) raw: Vec<Vec<u8>>,
    pub(crate) protos: Vec<Proto>,
}

impl Host for FakeHost {
    fn call(&mut self, args: &[&[u8]], proto: Proto, reply: &mut Vec<u8>) {
        self.protos.push(proto);
        let name = args[0].to_ascii_lowercase();
        match (name.as_slice(), args.len()) {
            (b"ping", 1) => reply.extend_from_slice(b"+PONG\r\n"),
            (b"echo", 2) => bulk(reply, args[1]),
            (b"get", 2) => match self.data.get(args[1]) {
                Some(value) => bulk(reply, value),
                None => reply.extend_from_slice(b"$-1\r\n"),
            },
            (b"set", 3) => {
                self.data.insert(args[1].to_vec(), args[2].to_vec());
                reply.extend_from_slice(b"+OK\r\n");
            }
            (b"incr", 2) => {
                let text = self
                    .data
                    .get(args[1])
                    .map_or("0", |text| std::str::from_utf8(text).unwrap());
                match text.parse::<i64>() {
                    Ok(number) => {
                        self.data
                            .insert(args[1].to_vec(), (number + 1).to_string().into_bytes());
                        reply.extend_from_slice(format!(":{}\r\n", number + 1).as_bytes());
                    }
                    Err(_) => reply.extend_from_slice(b"-ERR value is not an integer or out of range\r\n"),
                }
            }
            (b"raw", 2) => {
                let index: usize = std::str::from_utf8(args[1]).unwrap().parse().unwrap();
                reply.extend_from_slice(&self.raw[index]);
            }
            (b"panic", _) => panic!("the host failed"),
            (b"ping" | b"echo" | b"get" | b"set" | b"incr", _) => {
                reply.extend_from_slice(b"-ERR Wrong number of args calling Redis command from script\r\n");
            }
            _ => reply.extend_from_slice(b"-ERR Unknown Redis command called from script\r\n"),
        }
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.log.push((level, message.to_vec()));
    }

    fn acl_check(&mut self, args: &[&[u8]]) -> Result<bool, String> {
        match args[0] {
            b"get" | b"set" => Ok(true),
            b"hset" => Ok(false),
            _ => Err("Invalid command passed to redis.acl_check_cmd()".to_owned()),
        }
    }

    fn tick(&mut self) -> Tick {
        self.ticks += 1;
        match self.kill_at {
            Some(at) if self.ticks >= at => {
                Tick::Kill("Script killed by user with SCRIPT KILL...".to_owned())
            }
            _ => Tick::Continue,
        }
    }

    fn set_repl(&mut self, flags: i64) {
        self.repl = Some(flags);
    }
}

fn bulk(reply: &mut Vec<u8>, text: &[u8]) {
    reply.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
    reply.extend_from_slice(text);
    reply.extend_from_slice(b"\r\n");
}

/// A `Vm` with its host.
pub(crate) struct Bench {
    pub(crate) vm: Vm,
    pub(crate) host: FakeHost,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Bench {
        Bench {
            vm: Vm::new(limits).unwrap(),
            host: FakeHost::default(),
        }
    }

    /// What EVAL would answer.
    pub(crate) fn eval_bytes(&mut self, body: &[u8], keys: &[&str], argv: &[&str], proto: Proto) -> Vec<u8> {
        let sha = sha1_hex(body);
        let mut out = Out::new(proto);
        if let Err(error) = self.vm.load_script(&sha, body) {
            out.error(&format!("ERR {error}"));
            return out.buf;
        }
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let argv: Vec<&[u8]> = argv.iter().map(|arg| arg.as_bytes()).collect();
        let outcome = self.vm.run_script(&sha, &keys, &argv, &mut self.host, &mut out);
        assert_ne!(outcome, RunOutcome::Missing);
        out.buf
    }

    pub(crate) fn eval(&mut self, body: &str) -> String {
        String::from_utf8_lossy(&self.eval_bytes(body.as_bytes(), &[], &[], Proto::Resp2)).into_owned()
    }

    /// What FUNCTION LOAD REPLACE would answer, loading under one fixed id.
    pub(crate) fn load_library(&mut self, code: &str) -> Result<Vec<nagaya_lua::FunctionDef>, String> {
        let shebang = parse_library_shebang(code.as_bytes()).map_err(|error| error.to_string())?;
        let name = shebang.name.unwrap();
        self.vm
            .load_library(
                LibraryId(1),
                &name,
                &code.as_bytes()[shebang.body_offset..],
                &mut self.host,
            )
            .map_err(|error| error.to_string())
    }

    pub(crate) fn fcall(&mut self, name: &str, proto: Proto) -> Vec<u8> {
        let mut out = Out::new(proto);
        self.vm
            .call_function(LibraryId(1), name, &[], &[], &mut self.host, &mut out);
        out.buf
    }
}

/// Connects to a server of the test's own.
pub(crate) fn connect(server: &Redis) -> Client {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    Client {
        stream,
        buffer: Vec::new(),
    }
}

/// Starts a server that lets scripts run as long as they like.
pub(crate) fn start_redis() -> Redis {
    Redis::with_config(&["lua-time-limit 0"])
}

pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn ask(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut request = Vec::new();
        encode_request(args, &mut request);
        self.stream.write_all(&request).unwrap();
        loop {
            // What the scanner refuses is taken as it comes: a big number that is none, a reply nested too deep.
            let end = match scan_frame(&self.buffer) {
                Ok(end) => end,
                Err(_) if self.buffer[0] == b'(' => {
                    self.buffer.ends_with(b"\r\n").then_some(self.buffer.len())
                }
                Err(_) => self.buffer.ends_with(b"limit\r\n").then_some(self.buffer.len()),
            };
            if let Some(end) = end {
                return self.buffer.drain(..end).collect();
            }
            let mut chunk = [0; 65536];
            let len = self.stream.read(&mut chunk).unwrap_or_else(|error| {
                panic!("no reply to {:?}: {error}", args[1].escape_ascii().to_string())
            });
            assert_ne!(len, 0, "redis-server closed the connection");
            self.buffer.extend_from_slice(&chunk[..len]);
        }
    }
}
