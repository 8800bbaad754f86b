//! HTTP calls of callbacks, over connections that are kept, and of source lists, one request per connection.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, HOST};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, Response, Uri};
use nagaya_http_kit::client::{self, Client, HttpsClient, Limits};
use nagaya_net::tls;

/// Longest response accepted, in bytes: a list of a million workers with a config each.
const RESPONSE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// An `http://` or `https://` URL without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url(Uri);

impl Url {
    pub(crate) fn parse(text: &str) -> io::Result<Url> {
        if !text.starts_with("https://") && !text.starts_with("http://") {
            return Err(bad_url("begins with neither http:// nor https://"));
        }
        let no_host = "has no plain host, or contains white space";
        let uri: Uri = text.parse().map_err(|_| bad_url(no_host))?;
        let authority = uri.authority().ok_or_else(|| bad_url(no_host))?;
        let (host, rest) = (authority.host(), authority.as_str());
        if host.is_empty() || rest.contains('@') {
            return Err(bad_url(no_host));
        }
        if rest != host && authority.port_u16().is_none() {
            return Err(bad_url("has a port that is no number"));
        }
        Ok(Url(uri))
    }

    /// Returns the URL with one more segment.
    pub(crate) fn join(&self, segment: &str) -> io::Result<Url> {
        let path = self.0.path_and_query().map_or("", PathAndQuery::as_str);
        self.with_path(&format!("{}/{segment}", path.trim_end_matches('/')))
    }

    /// Resolves the target of a `Link` header, which may be relative to this URL.
    pub(crate) fn resolve(&self, target: &str) -> io::Result<Url> {
        if target.starts_with('/') {
            self.with_path(target)
        } else {
            Url::parse(target)
        }
    }

    /// Returns whether both URLs lead to the same server the same way, so that the credentials of one may be sent to
    /// the other.
    pub(crate) fn is_same_server(&self, other: &Url) -> bool {
        (self.is_tls(), self.0.host(), self.port()) == (other.is_tls(), other.0.host(), other.port())
    }

    fn with_path(&self, path: &str) -> io::Result<Url> {
        let path = if path.starts_with('/') {
            PathAndQuery::try_from(path)
        } else {
            PathAndQuery::try_from(format!("/{path}"))
        };
        let mut parts = self.0.clone().into_parts();
        parts.path_and_query = Some(path.map_err(|_| bad_url("has a path that cannot be sent"))?);
        let uri = Uri::from_parts(parts).map_err(|_| bad_url("has a path that cannot be sent"))?;
        Ok(Url(uri))
    }

    fn is_tls(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })
    }
}

/// The text may contain credentials, so it is not repeated.
fn bad_url(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the URL {reason}"))
}

/// A server's response.
#[derive(Debug)]
pub(crate) struct Answer(Response<Bytes>);

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.0.headers().get(name)?.to_str().ok()
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.0.body()
    }
}

/// Calls servers; over TLS if the URL it was made for asks for that.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    client: AnyClient,
    /// Each request has a connection of its own.
    is_single: bool,
}

#[derive(Clone, Debug)]
enum AnyClient {
    Plain(Client),
    Tls(HttpsClient),
}

impl Caller {
    /// Trusts the certificates of a file, or the system's without one.
    pub(crate) fn new(url: &Url, ca: Option<&Path>) -> io::Result<Caller> {
        let limits = Limits {
            // The callers limit the whole request.
            connect: None,
            idle: Duration::ZERO,
            idle_per_host_max: 0,
        };
        Caller::with_limits(url, ca, limits)
    }

    /// A caller that keeps its connections.
    pub(crate) fn kept(url: &Url) -> io::Result<Caller> {
        let limits = Limits {
            connect: None,
            ..Limits::default()
        };
        Caller::with_limits(url, None, limits)
    }

    fn with_limits(url: &Url, ca: Option<&Path>, limits: Limits) -> io::Result<Caller> {
        let client = if url.is_tls() {
            let config = tls::client_config(ca).map_err(io::Error::other)?;
            AnyClient::Tls(Client::with_tls(limits, config))
        } else {
            AnyClient::Plain(Client::new(limits))
        };
        Ok(Caller {
            client,
            is_single: limits.idle_per_host_max == 0,
        })
    }

    /// Sends one request and reads the whole response. A body that is cut short is an error.
    pub(crate) async fn request(
        &self,
        method: Method,
        url: &Url,
        headers: &[(HeaderName, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        macro_rules! send {
            ($client:expr) => {{
                let mut call = $client
                    .call(method, url.0.clone())
                    .body(Bytes::copy_from_slice(body))
                    .body_max(RESPONSE_BYTES_MAX)
                    .header(HOST, host(url)?)
                    .header(ACCEPT, HeaderValue::from_static("application/json"))
                    .header(CONTENT_LENGTH, body.len().into());
                if self.is_single {
                    call = call.header(CONNECTION, HeaderValue::from_static("close"));
                }
                for (name, value) in headers {
                    let value = HeaderValue::from_str(value).map_err(io::Error::other)?;
                    call = call.header(name.clone(), value);
                }
                call.send().await
            }};
        }
        let sent = match (&self.client, url.is_tls()) {
            (AnyClient::Plain(client), false) => send!(client),
            (AnyClient::Tls(client), true) => send!(client),
            _ => {
                return Err(io::Error::other(
                    "a list that begins with https goes on with it, and so with http",
                ));
            }
        };
        sent.map(Answer).map_err(explain)
    }
}

fn host(url: &Url) -> io::Result<HeaderValue> {
    let text = format!("{}:{}", url.0.host().unwrap_or_default(), url.port());
    HeaderValue::try_from(text).map_err(io::Error::other)
}

fn explain(error: client::Error) -> io::Error {
    match &error {
        client::Error::Body(_) | client::Error::TooLarge { .. } => {
            io::Error::new(io::ErrorKind::InvalidData, "http answer was cut short")
        }
        _ => match error.find::<io::Error>() {
            Some(cause) => io::Error::new(cause.kind(), cause.to_string()),
            None => io::Error::new(io::ErrorKind::InvalidData, error.root().to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn path(url: &Url) -> String {
        url.0.path_and_query().unwrap().to_string()
    }

    #[test]
    fn urls_are_read_and_joined() {
        let url = Url::parse("http://[::1]:8080/base/?x=1").unwrap();
        assert_eq!((url.0.host(), url.port()), (Some("[::1]"), 8080));
        let url = Url::parse("http://h").unwrap();
        assert_eq!(path(&url.join("start").unwrap()), "/start");
        assert_eq!(path(&url.resolve("/list?page=2").unwrap()), "/list?page=2");
        assert_eq!(
            path(&Url::parse("http://h?a=b").unwrap().join("x").unwrap()),
            "/?a=b/x"
        );
        assert_eq!(Url::parse("https://h/x").unwrap().port(), 443);
        assert!(url.is_same_server(&Url::parse("http://h:80/y").unwrap()));
        assert!(!url.is_same_server(&Url::parse("https://h:80/").unwrap()));
        for bad in [
            "ftp://h",
            "http://",
            "http://h:x/",
            "http://h:/",
            "https://u:p@h/",
            "h",
            "http://h/a b",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    /// The request that a server got, and the result of the caller when the server wrote these bytes and closed.
    async fn exchange(response: &'static [u8]) -> (String, io::Result<Answer>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\nbody") {
                request.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(response).await.unwrap();
            String::from_utf8(request).unwrap()
        });
        let url = Url::parse(&format!("http://{address}/x?y=1")).unwrap();
        let caller = Caller::new(&url, None).unwrap();
        let headers = [(http::header::AUTHORIZATION, "token")];
        let answer = caller.request(Method::POST, &url, &headers, b"body").await;
        (serving.await.unwrap(), answer)
    }

    #[tokio::test]
    async fn answers_that_were_cut_short_are_errors() {
        let whole = exchange(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nLink: <x>\r\n\r\nok")
            .await
            .1
            .unwrap();
        assert_eq!((whole.status(), whole.body()), (200, &b"ok"[..]));
        assert_eq!((whole.header("link"), whole.header("x")), (Some("<x>"), None));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        assert_eq!(exchange(chunked).await.1.unwrap().body(), b"ok");
        let unmeasured = b"HTTP/1.1 200 OK\r\n\r\nok";
        assert_eq!(exchange(unmeasured).await.1.unwrap().body(), b"ok");
        for cut in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"[..],
            &chunked[..chunked.len() - 5],
            b"HTTP/1.1 200",
        ] {
            assert!(exchange(cut).await.1.is_err(), "{cut:?}");
        }
    }

    #[tokio::test]
    async fn a_request_is_the_only_one_of_its_connection() {
        let (request, _) = exchange(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        assert!(request.starts_with("POST /x?y=1 HTTP/1.1\r\n"), "{request}");
        for line in [
            "host: 127.0.0.1:",
            "connection: close\r\n",
            "accept: application/json\r\n",
            "content-length: 4\r\n",
            "authorization: token\r\n",
        ] {
            assert!(request.contains(&format!("\r\n{line}")), "{line}: {request}");
        }
    }

    #[tokio::test]
    async fn a_list_does_not_change_between_http_and_https() {
        let url = Url::parse("http://h/").unwrap();
        let caller = Caller::new(&url, None).unwrap();
        let other = Url::parse("https://h/").unwrap();
        let error = caller.request(Method::GET, &other, &[], b"").await.unwrap_err();
        assert!(error.to_string().contains("begins with https"), "{error}");
    }
}
