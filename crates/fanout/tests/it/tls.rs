//! Endpoints behind TLS, with HTTP/1.1 and HTTP/2, trusted and not.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use nagaya_testkit::Folder;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::fan::{Fan, config, state};
use crate::scripted::Scripted;

/// Starts an endpoint that answers with its protocol's version; returns its URL and its certificate.
async fn secure_endpoint(protocols: &[&str]) -> (String, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let answer = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                    let body = format!("{:?} {}", request.version(), request.uri().path());
                    Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(body))))
                });
                let builder = Builder::new(TokioExecutor::new());
                // The client closing the connection is the normal end.
                let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    (format!("https://localhost:{port}/p"), cert.pem())
}

async fn answer_of(protocols: &[&str]) -> serde_json::Value {
    let (url, certificate) = secure_endpoint(protocols).await;
    let folder = Folder::new("ca");
    let mut config = config(&[("a", url)]);
    config.ca = Some(folder.write("ca.pem", &certificate));
    let fan = Fan::start(config).await;
    fan.whole().await;
    fan.whole().await["results"]["a"].clone()
}

#[tokio::test]
async fn http2_is_spoken_with_those_who_know_it() {
    assert_eq!(answer_of(&["h2", "http/1.1"]).await["body"], "HTTP/2.0 /p");
}

#[tokio::test]
async fn http1_is_spoken_with_the_others() {
    assert_eq!(answer_of(&["http/1.1"]).await["body"], "HTTP/1.1 /p");
    assert_eq!(answer_of(&[]).await["body"], "HTTP/1.1 /p");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (url, _) = secure_endpoint(&["h2"]).await;
    let (_, other) = secure_endpoint(&["h2"]).await;
    let folder = Folder::new("ca");
    let mut config = config(&[("a", url)]);
    config.ca = Some(folder.write("ca.pem", &other));
    let fan = Fan::start(config).await;
    let request = fan.whole().await;
    assert_eq!(state(&request, "a"), "refused");
    assert!(
        request["results"]["a"]["detail"]
            .as_str()
            .unwrap()
            .starts_with("tls: "),
        "{request}"
    );
}

#[tokio::test]
async fn plain_http_where_tls_is_expected_is_refused() {
    let plain = Scripted::saying("x").await;
    let (_, certificate) = secure_endpoint(&[]).await;
    let folder = Folder::new("ca");
    let url = plain.url().replace("http://127.0.0.1", "https://localhost");
    let mut config = config(&[("a", url)]);
    config.timeout = std::time::Duration::from_millis(500);
    config.ca = Some(folder.write("ca.pem", &certificate));
    let request = Fan::start(config).await.whole().await;
    assert!(matches!(state(&request, "a"), "refused" | "timeout"), "{request}");
    assert!(request["results"]["a"].get("body").is_none());
}
