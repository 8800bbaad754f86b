//! A plain connection of the load generator: one request, one reply.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_resp::encode_request;

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Connection {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
    request: Vec<u8>,
    line: Vec<u8>,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Nothing,
    /// A line without its first byte.
    Line(String),
    Bytes(Vec<u8>),
    Error(String),
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection {
            replies: BufReader::new(stream.try_clone()?),
            stream,
            request: Vec::new(),
            line: Vec::new(),
        })
    }

    pub(super) fn ask(&mut self, args: &[&[u8]]) -> anyhow::Result<Reply> {
        self.request.clear();
        encode_request(args, &mut self.request);
        self.stream.write_all(&self.request)?;
        self.read()
    }

    /// Sends several requests at once and hands each reply to `take`.
    pub(super) fn ask_all(
        &mut self,
        requests: usize,
        encode: impl Fn(usize, &mut Vec<u8>),
        mut take: impl FnMut(usize, Reply),
    ) -> anyhow::Result<()> {
        self.request.clear();
        (0..requests).for_each(|number| encode(number, &mut self.request));
        self.stream.write_all(&self.request)?;
        for number in 0..requests {
            take(number, self.read()?);
        }
        Ok(())
    }

    /// Reads one reply that is a line or a string; of an array, only its head.
    fn read(&mut self) -> anyhow::Result<Reply> {
        self.line.clear();
        self.replies.read_until(b'\n', &mut self.line)?;
        let text = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        let Some(rest) = text.get(1..) else {
            bail!("the server closed the connection");
        };
        match self.line[0] {
            b'$' => {
                let length: i64 = rest.parse().context("a reply has an odd length")?;
                let Ok(length) = usize::try_from(length) else {
                    return Ok(Reply::Nothing);
                };
                let mut bytes = vec![0; length + 2];
                self.replies.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Reply::Bytes(bytes))
            }
            b'-' => Ok(Reply::Error(rest.to_owned())),
            b'*' if rest == "-1" => Ok(Reply::Nothing),
            _ => Ok(Reply::Line(rest.to_owned())),
        }
    }

    /// Asks ROOM.STATUS whether a tag is in memory.
    pub(super) fn is_resident(&mut self, tag: &[u8]) -> anyhow::Result<bool> {
        let Reply::Line(count) = self.ask(&[b"ROOM.STATUS", tag])? else {
            bail!("ROOM.STATUS did not answer with a list");
        };
        let count: usize = count.parse().context("ROOM.STATUS did not answer with a list")?;
        let fields = (0..count)
            .map(|_| self.read())
            .collect::<anyhow::Result<Vec<Reply>>>()?;
        let at = fields
            .iter()
            .position(|field| *field == Reply::Bytes(b"resident".to_vec()));
        Ok(at.and_then(|at| fields.get(at + 1)) == Some(&Reply::Line("1".to_owned())))
    }
}
