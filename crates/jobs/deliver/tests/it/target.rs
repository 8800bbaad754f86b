//! A scripted HTTP server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rcgen::{CertifiedKey, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A request as received.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let of_name = |line: &&str| {
            line.split(':')
                .next()
                .is_some_and(|one| one.eq_ignore_ascii_case(name))
        };
        let line = self.head.lines().find(of_name)?;
        line.split_once(':').map(|(_, value)| value.trim())
    }

    pub(crate) fn id(&self) -> String {
        self.header("webhook-id").expect("an id").to_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What a target does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A complete reply with extra headers, then the end of the connection.
    Say(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// These bytes, then a reset.
    SayAndReset(&'static str),
    /// These bytes, then one byte after another forever.
    Drip(&'static str),
    /// Nothing, forever.
    Stall,
    /// Waits, then replies with a status.
    After(Duration, u16),
}

pub(crate) fn say(status: u16) -> Act {
    Act::Say(status, Vec::new(), b"noted".to_vec())
}

/// A listening target.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    /// They end with the target.
    _tasks: JoinSet<()>,
}

type Script = Box<dyn Fn(usize, &Got) -> Act + Send + Sync>;

struct Shared {
    got: Mutex<Vec<Got>>,
    written: AtomicUsize,
    under_way: AtomicUsize,
    under_way_max: AtomicUsize,
    script: Script,
}

impl Target {
    pub(crate) async fn start(script: impl Fn(usize, &Got) -> Act + Send + Sync + 'static) -> Target {
        Target::start_at("127.0.0.1:0".parse().unwrap(), script).await
    }

    /// Listens at an address. `script` gets the number of the request, from 0.
    pub(crate) async fn start_at(
        address: SocketAddr,
        script: impl Fn(usize, &Got) -> Act + Send + Sync + 'static,
    ) -> Target {
        let shared = Arc::new(Shared {
            got: Mutex::default(),
            written: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            under_way_max: AtomicUsize::new(0),
            script: Box::new(script),
        });
        let listener = TcpListener::bind(address).await.unwrap();
        let mut tasks = JoinSet::new();
        let address = listener.local_addr().unwrap();
        let serving = Arc::clone(&shared);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                connections.spawn(async move { shared.serve(stream).await });
            }
        });
        Target {
            address,
            shared,
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.shared.got.lock().clone()
    }

    /// Returns the number of body bytes sent.
    pub(crate) fn written(&self) -> usize {
        self.shared.written.load(Ordering::SeqCst)
    }

    pub(crate) fn under_way_max(&self) -> usize {
        self.shared.under_way_max.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) {
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.under_way_max.fetch_max(now, Ordering::SeqCst);
        if let Some(act) = self.take(&mut stream).await {
            // A client that disconnects during the reply is fine.
            self.act(act, stream).await.ok();
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    async fn take(&self, stream: &mut TcpStream) -> Option<Act> {
        let got = read_request(stream).await?;
        let mut all = self.got.lock();
        let act = (self.script)(all.len(), &got);
        all.push(got);
        Some(act)
    }

    async fn act(&self, act: Act, mut stream: TcpStream) -> std::io::Result<()> {
        match act {
            Act::Say(status, headers, body) => {
                stream
                    .write_all(head(status, &headers, body.len()).as_bytes())
                    .await?;
                for part in body.chunks(16 << 10) {
                    stream.write_all(part).await?;
                    self.written.fetch_add(part.len(), Ordering::SeqCst);
                }
                stream.shutdown().await
            }
            Act::SayAndReset(text) => {
                stream.write_all(text.as_bytes()).await?;
                stream.flush().await?;
                // Closed with bytes unread or unsent, so that the other side sees a reset.
                stream.set_zero_linger()?;
                Ok(())
            }
            Act::Drip(text) => {
                stream.write_all(text.as_bytes()).await?;
                loop {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    stream.write_all(b"x").await?;
                }
            }
            Act::Stall => std::future::pending().await,
            Act::After(wait, status) => {
                tokio::time::sleep(wait).await;
                stream.write_all(head(status, &[], 0).as_bytes()).await?;
                stream.shutdown().await
            }
        }
    }
}

pub(crate) fn head(status: u16, headers: &[(&str, String)], length: usize) -> String {
    let more: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n")
}

/// Reads a request with a content length; `None` when it breaks off.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<Got> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut got = Got {
        head: String::from_utf8(bytes[..end].to_vec()).ok()?,
        body: bytes.split_off(end),
    };
    let length: usize = got.header("content-length")?.parse().ok()?;
    while got.body.len() < length {
        if stream.read_buf(&mut got.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(got)
}

/// A self-signed certificate for this machine.
pub(crate) fn certificate() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap()
}

pub(crate) fn tls_acceptor(made: &CertifiedKey<KeyPair>) -> TlsAcceptor {
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}
