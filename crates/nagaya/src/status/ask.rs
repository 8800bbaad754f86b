//! One question to a running house, over plain HTTP.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, ensure};
use nagaya_config::Secret;

/// How long connecting, sending and each read may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer that is read, in bytes; far more than a house says.
const ANSWER_MAX: u64 = 1 << 20;

/// An HTTP answer: status and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

pub(super) fn get(url: &str, path: &str, token: Option<&Secret>) -> anyhow::Result<Answer> {
    get_within(url, path, token, PATIENCE, ANSWER_MAX)
}

/// Sends one GET. HTTP/1.0, so that the answer ends with the connection.
pub(crate) fn get_within(
    url: &str,
    path: &str,
    token: Option<&Secret>,
    patience: Duration,
    answer_max: u64,
) -> anyhow::Result<Answer> {
    let authority = url
        .strip_prefix("http://")
        .map(|rest| rest.trim_end_matches('/'))
        .filter(|rest| !rest.is_empty() && !rest.contains('/'))
        .with_context(|| format!("`{url}` does not look like http://ADDRESS:PORT"))?;
    let mut stream = connect(authority, patience).with_context(|| {
        format!("nothing answers at {url}; start the house with `nagaya up` or name it with --url")
    })?;
    let token = token
        .map(|token| format!("authorization: Bearer {}\r\n", token.reveal()))
        .unwrap_or_default();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {authority}\r\n{token}\r\n")?;
    let mut text = String::new();
    stream
        .take(answer_max)
        .read_to_string(&mut text)
        .with_context(|| format!("{url}{path} did not answer"))?;
    parse(&text).with_context(|| format!("what answers at {url} does not speak HTTP"))
}

fn connect(authority: &str, patience: Duration) -> io::Result<TcpStream> {
    let with_port = if authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in with_port.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn parse(text: &str) -> anyhow::Result<Answer> {
    let (head, body) = text
        .split_once("\r\n\r\n")
        .context("the answer has no end of its head")?;
    ensure!(
        head.starts_with("HTTP/1."),
        "the answer does not begin with HTTP/1"
    );
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer {
        status: status.context("the answer has no status")?,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_http_are_refused() {
        assert!(parse("hello").is_err());
        assert!(parse("SSH-2.0\r\n\r\n").is_err());
        assert_eq!(parse("HTTP/1.1 503 X\r\na: b\r\n\r\nbody").unwrap().status, 503);
    }
}
