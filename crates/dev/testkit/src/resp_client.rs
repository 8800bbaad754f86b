//! A small blocking Redis client.
//!
//! It is written apart from our own `resp` crate on purpose: a mistake there must
//! not be hidden by the same mistake here.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// One connection to a Redis server, or to anything that speaks its protocol.
#[derive(Debug)]
pub struct RespClient {
    stream: BufReader<TcpStream>,
}

impl RespClient {
    /// Connects; replies are waited for up to 10 s unless told otherwise.
    pub fn connect(address: SocketAddr) -> io::Result<RespClient> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        let client = RespClient {
            stream: BufReader::new(stream),
        };
        client.set_timeout(TIMEOUT)?;
        Ok(client)
    }

    /// How long sending or receiving may take before it is an error.
    pub fn set_timeout(&self, limit: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(limit))?;
        self.stream.get_ref().set_write_timeout(Some(limit))
    }

    /// Returns a second handle to the connection, to send on it while another thread receives.
    pub fn sender(&self) -> io::Result<TcpStream> {
        self.stream.get_ref().try_clone()
    }

    /// Sends a command and waits for its reply. An error reply of the server is a
    /// [`Reply::Error`]; `Err` means that the connection failed.
    pub fn cmd<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.send(args)?;
        self.receive()
    }

    /// Sends a command without waiting, for pipelines.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            let arg = arg.as_ref();
            bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
        self.send_raw(&bytes)
    }

    /// Sends bytes as they are, for tests of odd requests.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Waits for the next reply or push message.
    pub fn receive(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.stream)
    }
}

/// A reply in RESP2 or RESP3. The two spellings of nil are one.
#[derive(Clone, PartialEq)]
pub enum Reply {
    Nil,
    Simple(String),
    Error(String),
    Int(i64),
    Double(f64),
    Bool(bool),
    BigNumber(String),
    Bulk(Vec<u8>),
    /// Format (`txt` or `mkd`) and text.
    Verbatim(String, String),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Set(Vec<Reply>),
    Push(Vec<Reply>),
}

impl Reply {
    pub fn ok() -> Reply {
        Reply::Simple("OK".into())
    }

    pub fn bulk(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_owned())
    }

    /// The text of a simple, bulk, verbatim or error reply; panics on others.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Reply::Simple(text) | Reply::Error(text) | Reply::Verbatim(_, text) => text.clone(),
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("not a text: {other:?}"),
        }
    }

    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(number) => *number,
            other => panic!("not an integer: {other:?}"),
        }
    }

    /// The items of an array, set or push.
    #[track_caller]
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// The error text, if this is an error.
    pub fn error(&self) -> Option<&str> {
        match self {
            Reply::Error(text) => Some(text),
            _ => None,
        }
    }
}

/// Bytes are shown as text, so that a failed assertion can be read.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Nil => f.write_str("nil"),
            Reply::Simple(text) => write!(f, "+{text}"),
            Reply::Error(text) => write!(f, "-{text}"),
            Reply::Int(number) => write!(f, "{number}"),
            Reply::Double(number) => write!(f, "{number:?}"),
            Reply::Bool(value) => write!(f, "{value}"),
            Reply::BigNumber(digits) => write!(f, "({digits}"),
            Reply::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Reply::Verbatim(format, text) => write!(f, "={format}:{text}"),
            Reply::Array(items) => f.debug_list().entries(items).finish(),
            Reply::Map(pairs) => f.debug_map().entries(pairs.iter().map(|(k, v)| (k, v))).finish(),
            Reply::Set(items) => f.debug_set().entries(items).finish(),
            Reply::Push(items) => f
                .write_str(">")
                .and_then(|()| f.debug_list().entries(items).finish()),
        }
    }
}

fn read_reply(stream: &mut impl BufRead) -> io::Result<Reply> {
    let line = read_line(stream)?;
    let mut chars = line.chars();
    let kind = chars.next().ok_or_else(|| bad(&line))?;
    let rest = chars.as_str();
    Ok(match kind {
        '+' => Reply::Simple(rest.into()),
        '-' => Reply::Error(rest.into()),
        ':' => Reply::Int(parse(rest)?),
        ',' => Reply::Double(parse(rest)?),
        '#' => Reply::Bool(rest == "t"),
        '(' => Reply::BigNumber(rest.into()),
        '_' => Reply::Nil,
        '$' | '*' if rest == "-1" => Reply::Nil,
        '$' => Reply::Bulk(read_bytes(stream, parse(rest)?)?),
        '!' => Reply::Error(String::from_utf8_lossy(&read_bytes(stream, parse(rest)?)?).into_owned()),
        '=' => {
            let text = String::from_utf8_lossy(&read_bytes(stream, parse(rest)?)?).into_owned();
            let (format, text) = text.split_once(':').ok_or_else(|| bad(&text))?;
            Reply::Verbatim(format.into(), text.into())
        }
        '*' => Reply::Array(read_items(stream, parse(rest)?)?),
        '~' => Reply::Set(read_items(stream, parse(rest)?)?),
        '>' => Reply::Push(read_items(stream, parse(rest)?)?),
        '%' => {
            let pairs: usize = parse(rest)?;
            let read_pair = |_| Ok((read_reply(stream)?, read_reply(stream)?));
            Reply::Map((0..pairs).map(read_pair).collect::<io::Result<_>>()?)
        }
        _ => return Err(bad(&line)),
    })
}

fn read_items(stream: &mut impl BufRead, count: usize) -> io::Result<Vec<Reply>> {
    (0..count).map(|_| read_reply(stream)).collect()
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.read_until(b'\n', &mut bytes)?;
    match bytes.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn read_bytes(stream: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn parse<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| bad(text))
}

fn bad(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a Redis reply: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, expected: Reply) {
        assert_eq!(read_reply(&mut bytes.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        check("+OK\r\n", Reply::ok());
        check("-ERR no\r\n", Reply::Error("ERR no".into()));
        check("!6\r\nERR no\r\n", Reply::Error("ERR no".into()));
        check(":-7\r\n", Reply::Int(-7));
        check(",1.5\r\n", Reply::Double(1.5));
        check(",inf\r\n", Reply::Double(f64::INFINITY));
        check("#t\r\n", Reply::Bool(true));
        check("(123\r\n", Reply::BigNumber("123".into()));
        check("$5\r\na\r\nbc\r\n", Reply::bulk("a\r\nbc"));
        check("=5\r\ntxt:a\r\n", Reply::Verbatim("txt".into(), "a".into()));
        check(
            "*2\r\n:1\r\n*0\r\n",
            Reply::Array(vec![Reply::Int(1), Reply::Array(vec![])]),
        );
        check("~1\r\n:1\r\n", Reply::Set(vec![Reply::Int(1)]));
        check(">1\r\n:1\r\n", Reply::Push(vec![Reply::Int(1)]));
        check(
            "%1\r\n+k\r\n:1\r\n",
            Reply::Map(vec![(Reply::Simple("k".into()), Reply::Int(1))]),
        );
    }

    #[test]
    fn all_spellings_of_nil_are_one() {
        for bytes in ["$-1\r\n", "*-1\r\n", "_\r\n"] {
            check(bytes, Reply::Nil);
        }
    }

    #[test]
    fn a_closed_connection_is_an_error() {
        let error = read_reply(&mut "".as_bytes()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
