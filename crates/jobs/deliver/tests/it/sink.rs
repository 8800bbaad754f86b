//! A mail server that stores what it receives.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// A mail server that stores what it receives.
pub(crate) struct Sink {
    pub(crate) port: u16,
    mails: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Sink {
    /// Rejects the first `refusals` mails temporarily.
    pub(crate) async fn start(refusals: usize) -> Sink {
        Sink::open(refusals, None).await
    }

    pub(crate) async fn start_with_tls(acceptor: TlsAcceptor) -> Sink {
        Sink::open(0, Some(acceptor)).await
    }

    async fn open(refusals: usize, acceptor: Option<TlsAcceptor>) -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mails = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&mails);
        let left = Arc::new(Mutex::new(refusals));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, left, acceptor) = (Arc::clone(&kept), Arc::clone(&left), acceptor.clone());
                // The client has to handle an aborted session.
                tokio::spawn(async move {
                    match acceptor {
                        None => converse(stream, &kept, &left).await.ok(),
                        Some(acceptor) => converse(acceptor.accept(stream).await.ok()?, &kept, &left)
                            .await
                            .ok(),
                    }
                });
            }
        });
        Sink {
            port,
            mails,
            _tasks: tasks,
        }
    }

    pub(crate) fn mails(&self) -> Vec<String> {
        self.mails.lock().clone()
    }
}

async fn converse(
    stream: impl Stream,
    kept: &Mutex<Vec<String>>,
    left: &Mutex<usize>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 sink\r\n").await?;
    stream.flush().await?;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let verb = line
            .split([' ', ':', '\r'])
            .next()
            .unwrap_or_default()
            .to_ascii_uppercase();
        let answer = match verb.as_str() {
            "EHLO" => "250-sink\r\n250-AUTH PLAIN\r\n250 8BITMIME\r\n",
            "AUTH" => "235 welcome\r\n",
            "DATA" => {
                stream.write_all(b"354 go on\r\n").await?;
                stream.flush().await?;
                let mail = read_mail(&mut stream).await?;
                let is_refused = {
                    let mut left = left.lock();
                    let is_refused = *left > 0;
                    *left = left.saturating_sub(1);
                    is_refused
                };
                if is_refused {
                    "451 not now\r\n"
                } else {
                    kept.lock().push(mail);
                    "250 kept\r\n"
                }
            }
            "QUIT" => {
                return stream.write_all(b"221 bye\r\n").await;
            }
            _ => "250 fine\r\n",
        };
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
    }
}

async fn read_mail(stream: &mut BufReader<impl Stream>) -> std::io::Result<String> {
    let mut mail = String::new();
    while !mail.ends_with("\r\n.\r\n") {
        if stream.read_line(&mut mail).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(mail)
}
