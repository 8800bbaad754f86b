//! One request to a running server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::http::{HeaderValue, Uri};
use nagaya_config::Secret;
use nagaya_http_kit::client::{Error, HttpsClient, Limits};
use nagaya_net::tls::client_config;

/// How long connecting, and each read, may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest response that is read, in bytes; far more than a server sends here.
const ANSWER_MAX: usize = 1 << 20;

/// An HTTP response: status and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

pub(super) fn get(
    url: &str,
    path: &str,
    token: Option<&Secret>,
    ca: Option<&Path>,
) -> anyhow::Result<Answer> {
    get_within(url, path, token, ca, TIMEOUT, ANSWER_MAX)
}

/// Sends one GET on a connection of its own. Each read may take `read_timeout`. `ca` is trusted instead of the system's
/// certificates.
pub(crate) fn get_within(
    url: &str,
    path: &str,
    token: Option<&Secret>,
    ca: Option<&Path>,
    read_timeout: Duration,
    answer_max: usize,
) -> anyhow::Result<Answer> {
    let no_address = || format!("`{url}` does not look like http://ADDRESS:PORT or https://ADDRESS:PORT");
    let (scheme, authority) = url
        .split_once("://")
        .filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
        .map(|(scheme, rest)| (scheme, rest.trim_end_matches('/')))
        .filter(|(_, rest)| !rest.is_empty() && !rest.contains('/'))
        .with_context(no_address)?;
    let uri: Uri = format!("{scheme}://{authority}{path}")
        .parse()
        .with_context(no_address)?;
    let limits = Limits {
        connect: Some(TIMEOUT),
        idle: Duration::ZERO,
        idle_per_host_max: 0,
    };
    let client = match scheme {
        "https" => HttpsClient::with_tls(limits, client_config(ca).map_err(|error| anyhow!(error))?),
        // No certificates are needed then, and the machine may have none.
        _ => HttpsClient::without_certificates(limits).map_err(|error| anyhow!(error))?,
    };
    let mut call = client
        .get(uri)
        .header(CONNECTION, HeaderValue::from_static("close"))
        .read_timeout(read_timeout)
        .body_max(answer_max);
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))?;
        value.set_sensitive(true);
        call = call.header(AUTHORIZATION, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let no_answer = || format!("{url}{path} did not answer");
    let response = runtime.block_on(call.send()).map_err(|error| {
        let cause = anyhow!("{}", error.root());
        if matches!(error, Error::Connect(_)) {
            cause.context(format!(
                "nothing answers at {url}; start the server with `nagaya up` or name it with --url"
            ))
        } else if error.is_not_http() {
            cause.context(format!("what answers at {url} does not speak HTTP"))
        } else {
            cause.context(no_answer())
        }
    })?;
    let status = response.status().as_u16();
    let body = String::from_utf8(response.into_body().into()).with_context(no_answer)?;
    Ok(Answer { status, body })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// Sends a request to a server that writes this text and closes.
    fn answer(text: &'static str) -> anyhow::Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
                .collect();
            stream.write_all(text.as_bytes()).unwrap();
            head
        });
        let answer = get(&url, "/x", Some(&Secret::new("hunter2")), None);
        let head = serving.join().unwrap();
        assert!(
            head.contains(&"authorization: Bearer hunter2".to_owned()),
            "{head:?}"
        );
        answer
    }

    #[test]
    fn answers_that_are_not_http_are_refused() {
        for text in ["hello", "SSH-2.0\r\n\r\n", ""] {
            let error = answer(text).map(drop).unwrap_err().to_string();
            assert!(error.ends_with("does not speak HTTP"), "{text:?}: {error}");
        }
        let answered = answer("HTTP/1.1 503 X\r\na: b\r\n\r\nbody").unwrap();
        assert_eq!((answered.status, answered.body.as_str()), (503, "body"));
    }

    #[test]
    fn an_address_without_a_server_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = get(&url, "/x", None, None).map(drop).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("nothing answers at http://127.0.0.1:"),
            "{error}"
        );
        for bad in ["ftp://h", "http://", "http://h/x", "h"] {
            let error = get(bad, "/x", None, None).map(drop).unwrap_err().to_string();
            assert!(error.contains("does not look like"), "{error}");
        }
    }
}
