//! The service under test, running in this process, and a client for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::SystemClock;
use nagaya_fanout::{
    Cut, EndpointConfig, Fanout, FanoutConfig, IdSource, Server, State, Store, StoreKind, open_store,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Long enough for a loaded machine; normally nothing waits this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A generous timeout. Tests with endpoints that never answer set a shorter one.
pub(crate) fn config(endpoints: &[(&str, String)]) -> FanoutConfig {
    let mut config = FanoutConfig {
        store: StoreKind::Memory,
        timeout: Duration::from_secs(5),
        // So that a busy machine does not look like a store that hangs.
        store_timeout: Duration::from_secs(10),
        breaker_failures: 0,
        ..FanoutConfig::default()
    };
    config.listen.0.set_port(0);
    for (name, url) in endpoints {
        config
            .endpoints
            .0
            .insert(name.to_string(), EndpointConfig::at(url.as_str()));
    }
    config
}

pub(crate) struct Fan {
    pub(crate) address: SocketAddr,
    pub(crate) fanout: Arc<Fanout>,
    draining: CancellationToken,
    cut: CancellationToken,
    task: JoinHandle<Cut>,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_owned())
    }
}

impl Fan {
    pub(crate) async fn start(config: FanoutConfig) -> Fan {
        let store = open_store(&config, None, Arc::new(SystemClock)).unwrap();
        Fan::with_store(config, store).await
    }

    pub(crate) async fn with_store(config: FanoutConfig, store: Arc<dyn Store>) -> Fan {
        let listen = config.listen.0;
        let fanout = Arc::new(Fanout::new(config, store, IdSource::Uuid).unwrap());
        let server = Server::bind(Arc::clone(&fanout), listen).await.unwrap();
        let address = server.address().unwrap();
        let (draining, cut) = (CancellationToken::new(), CancellationToken::new());
        let task = tokio::spawn(server.run(draining.clone(), cut.clone()));
        Fan {
            address,
            fanout,
            draining,
            cut,
            task,
        }
    }

    /// Sends a request and reads the complete response.
    pub(crate) async fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!("{head}\r\nhost: localhost\r\nconnection: close\r\n");
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        let mut bytes = format!("{head}{length}\r\n").into_bytes();
        bytes.extend_from_slice(body);
        stream.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        timeout(LIMIT, stream.read_to_end(&mut answer))
            .await
            .unwrap()
            .unwrap();
        parse(&answer)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1"), b"").await
    }

    /// Fans out a request that must be accepted, and returns its id.
    pub(crate) async fn ask(&self) -> String {
        let answer = self.get("/?q=1").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["request_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a request is complete and returns it as it is read back.
    pub(crate) async fn finished(&self, id: &str) -> Value {
        let answer = self.get(&format!("/requests/{id}?wait=all")).await;
        let json = answer.json();
        assert_eq!(json["complete"], true, "{json}");
        json
    }

    /// Fans out a request and returns it once it is complete.
    pub(crate) async fn whole(&self) -> Value {
        let id = self.ask().await;
        self.finished(&id).await
    }

    pub(crate) fn count(&self, state: State) -> u64 {
        self.fanout.counts().outcome(state)
    }

    pub(crate) fn begin_draining(&self) {
        self.draining.cancel();
    }

    pub(crate) fn cut(&self) {
        self.cut.cancel();
    }

    /// Waits for the end after [`begin_draining`](Fan::begin_draining).
    pub(crate) async fn ended(self) -> Cut {
        timeout(LIMIT, self.task).await.unwrap().unwrap()
    }
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked {
        join_chunks(body)
    } else {
        body.to_owned()
    };
    Answer {
        status,
        head: head.to_owned(),
        body,
    }
}

fn join_chunks(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.push_str(&after[..length]);
        rest = &after[length + 2..];
    }
}

/// The state of one endpoint in a request that was read back.
#[track_caller]
pub(crate) fn state<'a>(request: &'a Value, name: &str) -> &'a str {
    request["results"][name]["state"]
        .as_str()
        .unwrap_or_else(|| panic!("no outcome of {name} in {request}"))
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    tokio::task::block_in_place(|| nagaya_testkit::wait::until(what, LIMIT, condition));
}
