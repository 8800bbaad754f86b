//! The few lines of HTTP/1.1 that callbacks and source lists need: one request per connection.

use std::io;
use std::path::Path;
use std::sync::Arc;

use nagaya_net::tls;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Longest answer accepted.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// An `http://` or `https://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    tls: bool,
    host: String,
    port: u16,
    /// With the query, beginning with `/`.
    path: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> io::Result<Url> {
        // The text may hold credentials, so it is not repeated.
        let bad = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("the URL {reason}"));
        let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(bad("begins with neither http:// nor https://")),
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (
                host,
                port.parse().map_err(|_| bad("has a port that is no number"))?,
            ),
            _ if tls => (authority, 443),
            _ => (authority, 80),
        };
        if host.is_empty() || host.contains('@') || text.contains(char::is_whitespace) {
            return Err(bad("has no plain host, or contains white space"));
        }
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        Ok(Url {
            tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            path,
        })
    }

    /// The URL with one more segment.
    pub(crate) fn join(&self, segment: &str) -> Url {
        Url {
            path: format!("{}/{segment}", self.path.trim_end_matches('/')),
            ..self.clone()
        }
    }

    /// What a `Link` header means, which may be relative to this URL.
    pub(crate) fn resolve(&self, target: &str) -> io::Result<Url> {
        match target.strip_prefix('/') {
            Some(_) => Ok(Url {
                path: target.to_owned(),
                ..self.clone()
            }),
            None => Url::parse(target),
        }
    }

    /// Whether both lead to the same server the same way, so that one's credentials may go to the other.
    pub(crate) fn is_same_server(&self, other: &Url) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Calls servers; over TLS if the URL it was made for asks for that.
#[derive(Clone)]
pub(crate) struct Caller {
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("tls", &self.tls.is_some())
            .finish()
    }
}

impl Caller {
    /// Trusts the certificates of a file, or the system's without one.
    pub(crate) fn new(url: &Url, ca: Option<&Path>) -> io::Result<Caller> {
        let config = url.tls.then(|| tls::client_config(ca)).transpose();
        let config = config.map_err(io::Error::other)?.map(Arc::new);
        Ok(Caller {
            tls: config.map(TlsConnector::from),
        })
    }

    /// Sends one request and reads the whole answer. A body that is cut short is an error.
    pub(crate) async fn request(
        &self,
        method: &str,
        url: &Url,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let stream = TcpStream::connect((url.host.as_str(), url.port)).await?;
        stream.set_nodelay(true)?;
        match (url.tls, &self.tls) {
            (false, None) => exchange(stream, method, url, headers, body).await,
            (true, Some(connector)) => {
                let name = tls::server_name(&url.host).map_err(io::Error::other)?;
                let stream = connector.connect(name, stream).await?;
                exchange(stream, method, url, headers, body).await
            }
            _ => Err(io::Error::other(
                "a list that begins with https goes on with it, and so with http",
            )),
        }
    }
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    url: &Url,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let host = if url.host.contains(':') {
        format!("[{}]", url.host)
    } else {
        url.host.clone()
    };
    let mut head = format!(
        "{method} {} HTTP/1.1\r\nhost: {host}:{}\r\nconnection: close\r\naccept: application/json\r\n\
         content-length: {}\r\n",
        url.path,
        url.port,
        body.len(),
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await?;
    stream.flush().await?;
    let mut bytes = Vec::new();
    let ended_well = match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).await {
        Ok(_) => true,
        // Many servers close TLS without a word; then the answer's own length tells whether it is whole.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(error),
    };
    parse_answer(&bytes, ended_well)
}

fn parse_answer(bytes: &[u8], ended_well: bool) -> io::Result<Answer> {
    let bad = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, format!("http answer {reason}"));
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or_else(|| bad("has no end of its head"))?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| bad("has a head that is not text"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    let mut answer = Answer {
        status: status.ok_or_else(|| bad("has no status"))?,
        headers: headers.collect(),
        body: Vec::new(),
    };
    let rest = &bytes[end + 4..];
    answer.body = if answer
        .header("transfer-encoding")
        .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    {
        join_chunks(rest).ok_or_else(|| bad("was cut short"))?
    } else {
        match answer.header("content-length").map(str::parse::<usize>) {
            Some(Ok(length)) if rest.len() >= length => rest[..length].to_vec(),
            None if ended_well => rest.to_vec(),
            None | Some(_) => return Err(bad("was cut short")),
        }
    };
    Ok(answer)
}

fn join_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_joined() {
        let url = Url::parse("http://[::1]:8080/base/?x=1").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("::1", 8080));
        let url = Url::parse("http://h").unwrap();
        assert_eq!(url.join("start").path, "/start");
        assert_eq!(url.resolve("/list?page=2").unwrap().path, "/list?page=2");
        assert_eq!(Url::parse("https://h/x").unwrap().port, 443);
        assert!(!url.is_same_server(&Url::parse("https://h:80/").unwrap()));
        for bad in ["ftp://h", "http://", "http://h:x/", "https://u:p@h/", "h"] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn answers_that_were_cut_short_are_errors() {
        let whole = parse_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true).unwrap();
        assert_eq!((whole.status, &whole.body[..]), (200, &b"ok"[..]));
        assert!(parse_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", true).is_err());
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        assert_eq!(parse_answer(chunked, true).unwrap().body, b"ok");
        assert!(parse_answer(&chunked[..chunked.len() - 5], true).is_err());
        assert!(parse_answer(b"HTTP/1.1 200", true).is_err());
        let unmeasured = b"HTTP/1.1 200 OK\r\n\r\nok";
        assert_eq!(parse_answer(unmeasured, true).unwrap().body, b"ok");
        assert!(parse_answer(unmeasured, false).is_err());
    }
}
