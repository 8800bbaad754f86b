//! Endpoints to fan out to: they answer a kilobyte at once, or never. They live in this process, on a
//! thread of their own.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BODY_BYTES: usize = 1024;
/// Servers behind the endpoints; several endpoints may be on one.
const SERVERS: usize = 6;

pub(super) struct Endpoints {
    answering: Vec<SocketAddr>,
    dead: SocketAddr,
}

impl Endpoints {
    /// Starts the servers; they run until the process ends.
    pub(super) fn start() -> anyhow::Result<Endpoints> {
        let bind = || -> io::Result<_> {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let servers = (0..SERVERS).map(|_| bind()).collect::<io::Result<Vec<_>>>()?;
        let (dead, dead_listener) = bind()?;
        let answering = servers.iter().map(|(address, _)| *address).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("endpoints".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    for (_, listener) in servers {
                        tokio::spawn(accept(listener, true));
                    }
                    accept(dead_listener, false).await;
                });
            })?;
        Ok(Endpoints { answering, dead })
    }

    /// The URL of the endpoint with this number.
    pub(super) fn url(&self, number: usize) -> String {
        format!("http://{}/e{number}", self.answering[number % SERVERS])
    }

    /// The URL of one that takes requests and never answers.
    pub(super) fn dead_url(&self) -> String {
        format!("http://{}/dead", self.dead)
    }
}

async fn accept(listener: std::net::TcpListener, answers: bool) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((stream, _)) = listener.accept().await {
        // A client that goes away ends its own connection.
        tokio::spawn(async move { serve(stream, answers).await.ok() });
    }
}

async fn serve(mut stream: TcpStream, answers: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + BODY_BYTES, b'x');
    let mut seen = Vec::with_capacity(4096);
    while stream.read_buf(&mut seen).await? > 0 {
        if !answers {
            seen.clear();
        } else if seen.ends_with(b"\r\n\r\n") {
            seen.clear();
            stream.write_all(&answer).await?;
        }
    }
    Ok(())
}
