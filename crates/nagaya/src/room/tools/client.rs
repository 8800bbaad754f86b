//! A connection to the running server, as any Redis client has it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_config::Secret;
use nagaya_resp::{Frame, encode_request, parse_frame};

/// How long an answer may take; saving everything takes a while.
const PATIENCE: Duration = Duration::from_secs(120);
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

pub(super) struct Client {
    stream: TcpStream,
    address: SocketAddr,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects and gives the password, if the settings have one.
    pub(super) fn connect(address: SocketAddr, password: Option<&Secret>) -> anyhow::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_PATIENCE)
            .with_context(|| format!("the server does not answer at {address}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut client = Client {
            stream,
            address,
            buffer: Vec::new(),
        };
        if let Some(password) = password {
            client.ask(&[b"AUTH", password.reveal().as_bytes()])?;
        }
        Ok(client)
    }

    /// Sends a command and returns the reply; an error reply is an error here.
    pub(super) fn ask(&mut self, args: &[&[u8]]) -> anyhow::Result<Frame> {
        let mut request = Vec::new();
        encode_request(args, &mut request);
        let address = self.address;
        self.stream
            .write_all(&request)
            .with_context(|| format!("the server at {address} takes no commands"))?;
        let frame = self.read()?;
        if let Frame::Error(text) = &frame {
            let (command, text) = (String::from_utf8_lossy(args[0]), String::from_utf8_lossy(text));
            if text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") {
                bail!("the server wants another password; give it as room.password in the settings");
            }
            bail!("the server answered {command} with: {text}");
        }
        Ok(frame)
    }

    /// Sends a command whose reply is a number.
    pub(super) fn ask_number(&mut self, args: &[&[u8]]) -> anyhow::Result<i64> {
        match self.ask(args)? {
            Frame::Int(number) => Ok(number),
            other => bail!("the server answered with {other:?} where a number was expected"),
        }
    }

    /// Sends a command whose reply is text; nothing when there is none.
    pub(super) fn ask_bytes(&mut self, args: &[&[u8]]) -> anyhow::Result<Option<Vec<u8>>> {
        match self.ask(args)? {
            Frame::Bulk(bytes) | Frame::Simple(bytes) | Frame::Verbatim { text: bytes, .. } => {
                Ok(Some(bytes))
            }
            Frame::Nil | Frame::Null => Ok(None),
            other => bail!("the server answered with {other:?} where text was expected"),
        }
    }

    fn read(&mut self) -> anyhow::Result<Frame> {
        loop {
            if let Some((frame, length)) = parse_frame(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(frame);
            }
            let mut chunk = vec![0; READ_BYTES];
            let read = self.stream.read(&mut chunk);
            match read.with_context(|| format!("the server at {} does not answer", self.address))? {
                0 => bail!("the server at {} closed the connection", self.address),
                count => self.buffer.extend_from_slice(&chunk[..count]),
            }
        }
    }
}
