//! Requests and raw reply bytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use nagaya_resp::{Frame, encode_request, parse_frame, scan_frame};

use crate::LIMIT;

pub(super) type Request = Vec<Vec<u8>>;

/// A connection that gives back the bytes of each reply.
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Wire {
            stream,
            buffer: Vec::new(),
        })
    }

    pub(super) fn send(&mut self, requests: &[Request]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for request in requests {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            encode_request(&args, &mut bytes);
        }
        self.stream.write_all(&bytes)
    }

    /// Waits for the bytes of the next reply.
    pub(super) fn receive(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = scan_frame(&self.buffer).map_err(io::Error::other)? {
                let rest = self.buffer.split_off(length);
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.buffer.extend_from_slice(&chunk[..read]),
            }
        }
    }

    pub(super) fn ask(&mut self, request: &Request) -> io::Result<Vec<u8>> {
        self.send(std::slice::from_ref(request))?;
        self.receive()
    }

    /// Asks many things at once, of a server that must answer.
    pub(super) fn ask_all(&mut self, requests: &[Request]) -> Vec<Frame> {
        let mut replies = Vec::new();
        for some in requests.chunks(200) {
            self.send(some).unwrap();
            replies.extend(some.iter().map(|_| frame(&self.receive().unwrap())));
        }
        replies
    }
}

pub(super) fn frame(reply: &[u8]) -> Frame {
    parse_frame(reply).unwrap().unwrap().0
}

/// Splits a request at its spaces.
pub(super) fn words(request: &str) -> Request {
    request.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
