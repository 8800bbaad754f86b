//! One socket with its frames, before it is shared.

use std::io;
use std::time::Duration;

use nagaya_resp::{Frame, FrameScanner, encode_request, parse_frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};

use crate::error::{Error, ServerError};
use crate::url::Endpoint;

/// Longest reply accepted. Redis itself sends no string beyond this.
const REPLY_BYTES_MAX: usize = 512 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connected socket and its unread bytes.
pub(crate) struct Wire {
    pub(crate) address: String,
    pub(crate) reader: FrameReader,
    pub(crate) writer: WriteHalf<Box<dyn Stream>>,
}

pub(crate) struct FrameReader {
    half: ReadHalf<Box<dyn Stream>>,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were returned already.
    used: usize,
    scanner: FrameScanner,
}

/// Why no more frames come.
#[derive(Debug)]
pub(crate) enum ReadError {
    End,
    Io(io::Error),
    Frame(nagaya_resp::FrameError),
    TooLong,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::End => f.write_str("closed by the server"),
            ReadError::Io(error) => write!(f, "{error}"),
            ReadError::Frame(error) => write!(f, "{error}"),
            ReadError::TooLong => write!(f, "a reply is longer than {REPLY_BYTES_MAX} bytes"),
        }
    }
}

impl FrameReader {
    /// Returns the next frame. Cancel safe: what was read stays in the buffer.
    pub(crate) async fn next(&mut self) -> Result<Frame, ReadError> {
        loop {
            let rest = &self.buffer[self.used..];
            if let Some(length) = self.scanner.scan(rest).map_err(ReadError::Frame)? {
                let parsed = parse_frame(&rest[..length]).map_err(ReadError::Frame)?;
                self.used += length;
                let (frame, _) = parsed.expect("the scanner found a whole frame");
                return Ok(frame);
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            if self.buffer.len() > REPLY_BYTES_MAX {
                return Err(ReadError::TooLong);
            }
            self.buffer.reserve(READ_BYTES);
            match self.half.read_buf(&mut self.buffer).await {
                Ok(0) => return Err(ReadError::End),
                Ok(_) => (),
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
    }
}

impl Wire {
    /// Connects within `limit`.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        tls: Option<&tokio_rustls::TlsConnector>,
        limit: Duration,
    ) -> Result<Wire, Error> {
        let address = endpoint.to_string();
        let opening = tokio::time::timeout(limit, open_stream(endpoint, tls)).await;
        let timed_out = |_| Error::TimedOut {
            address: address.clone(),
            what: "the connection",
            limit,
        };
        let stream = opening.map_err(timed_out)??;
        let (half, writer) = tokio::io::split(stream);
        let reader = FrameReader {
            half,
            buffer: Vec::new(),
            used: 0,
            scanner: FrameScanner::default(),
        };
        Ok(Wire {
            address,
            reader,
            writer,
        })
    }

    /// Sends one request and waits for its reply; an error reply becomes an error.
    pub(crate) async fn call(&mut self, args: &[&[u8]], limit: Duration) -> Result<Frame, Error> {
        let reply = match tokio::time::timeout(limit, self.exchange(args)).await {
            Ok(reply) => reply?,
            Err(_) => {
                let address = self.address.clone();
                return Err(Error::TimedOut {
                    address,
                    what: "a command",
                    limit,
                });
            }
        };
        match reply {
            Frame::Error(text) | Frame::BlobError(text) => Err(refused(&self.address, args, &text)),
            reply => Ok(reply),
        }
    }

    async fn exchange(&mut self, args: &[&[u8]]) -> Result<Frame, Error> {
        let mut request = Vec::new();
        encode_request(args, &mut request);
        let closed = |reason: String| Error::Closed {
            address: self.address.clone(),
            reason,
        };
        if let Err(error) = self.writer.write_all(&request).await {
            return Err(closed(error.to_string()));
        }
        match self.reader.next().await {
            Ok(frame) => Ok(frame),
            Err(ReadError::Frame(source)) => {
                let address = self.address.clone();
                Err(Error::Protocol { address, source })
            }
            Err(error) => Err(closed(error.to_string())),
        }
    }
}

/// Returns the error for a refused command. Only the command's name is kept: the rest may be secret.
pub(crate) fn refused(address: &str, args: &[&[u8]], text: &[u8]) -> Error {
    let name = args.first().copied().unwrap_or_default();
    Error::Refused {
        address: address.to_owned(),
        what: String::from_utf8_lossy(name).into_owned(),
        error: ServerError::new(text),
    }
}

async fn open_stream(
    endpoint: &Endpoint,
    tls: Option<&tokio_rustls::TlsConnector>,
) -> Result<Box<dyn Stream>, Error> {
    let address = || endpoint.to_string();
    let failed = |source| Error::Connect {
        address: address(),
        source,
    };
    let (host, port) = match endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(failed)?;
            return Ok(Box::new(stream));
        }
        Endpoint::Tcp { host, port } => (host, *port),
    };
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let Some(tls) = tls else {
        return Ok(Box::new(stream));
    };
    let name = nagaya_net::tls::server_name(host).map_err(|reason| Error::Tls {
        address: address(),
        reason,
    })?;
    let stream = tls.connect(name, stream).await.map_err(failed)?;
    Ok(Box::new(stream))
}
