//! External lists over HTTPS.

use std::sync::{Arc, Mutex};

use nagaya_fleet::manager::Source;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::block_on;

/// A server with its own certificate that serves the given pages and records request heads.
struct Https {
    port: u16,
    /// The certificate file.
    ca: tempfile::NamedTempFile,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Https {
    async fn serve(pages: Vec<String>) -> Https {
        Https::serve_ending(pages, true).await
    }

    /// Serves pages. Without `farewell` the connection is cut after each, as an attacker on the way can do.
    async fn serve_ending(pages: Vec<String>, farewell: bool) -> Https {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let ca = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(ca.path(), certificate.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = heads.clone();
        tokio::spawn(async move {
            for page in pages {
                // A client that does not trust the certificate disconnects.
                let mut stream = loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    if let Ok(stream) = acceptor.accept(stream).await {
                        break stream;
                    }
                };
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                kept.lock()
                    .unwrap()
                    .push(String::from_utf8_lossy(&head[..read]).into_owned());
                stream.write_all(page.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                if farewell {
                    let _ = stream.shutdown().await;
                }
            }
        });
        Https { port, ca, heads }
    }

    fn source(&self, trusting: bool) -> Source {
        let mut source: Source = format!("https://localhost:{}/list", self.port).parse().unwrap();
        if let Source::Http(http) = &mut source {
            http.authorization = Some("Bearer hunter2".to_owned());
            http.ca = trusting.then(|| self.ca.path().to_owned());
        }
        source
    }
}

fn page(body: &str, head: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{head}connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn pages_are_read_over_tls_from_servers_that_can_be_trusted() {
    block_on(async {
        let pages = vec![
            page(r#"[{"id":"a"}]"#, "link: </2>; rel=\"next\"\r\n"),
            page(r#"{"items":[{"id":"b"}]}"#, ""),
        ];
        let server = Https::serve(pages).await;
        assert!(
            server.source(false).read().await.is_err(),
            "nobody vouches for it"
        );
        let list = server.source(true).read().await.unwrap().installs;
        let ids: Vec<&str> = list.iter().map(|one| one.worker.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        let heads = server.heads.lock().unwrap();
        assert!(
            heads[1].starts_with("GET /2 ") && heads[1].contains("Bearer hunter2"),
            "{heads:?}"
        );
    });
}

#[test]
fn a_list_never_leaves_https_and_takes_its_credentials_to_no_other_server() {
    block_on(async {
        let plain = page(
            r#"[{"id":"a"}]"#,
            "link: <http://localhost:1/2>; rel=\"next\"\r\n",
        );
        let server = Https::serve(vec![plain]).await;
        let refused = server.source(true).read().await.unwrap_err();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains("https") || cause.contains("refused"), "{cause}");

        // Another server that the same file vouches for; it gets no credentials.
        let other = Https::serve(vec![page(r#"[{"id":"b"}]"#, "")]).await;
        let link = format!("link: <https://localhost:{}/2>; rel=\"next\"\r\n", other.port);
        let first = Https::serve(vec![page(r#"[{"id":"a"}]"#, &link)]).await;
        let both = [first.ca.path(), other.ca.path()].map(|path| std::fs::read_to_string(path).unwrap());
        std::fs::write(first.ca.path(), both.concat()).unwrap();
        assert_eq!(first.source(true).read().await.unwrap().installs.len(), 2);
        assert!(first.heads.lock().unwrap()[0].contains("hunter2"));
        assert!(!other.heads.lock().unwrap()[0].contains("hunter2"));
    });
}

#[test]
fn a_list_of_unknown_length_that_is_cut_is_not_taken_for_a_short_list() {
    block_on(async {
        let endless = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n[{\"id\":\"a\"}]".to_owned();
        let whole = Https::serve(vec![endless.clone()]).await;
        assert_eq!(whole.source(true).read().await.unwrap().installs.len(), 1);
        let cut = Https::serve_ending(vec![endless], false).await;
        let refused = cut.source(true).read().await;
        assert!(refused.is_err(), "{refused:?}");
    });
}
