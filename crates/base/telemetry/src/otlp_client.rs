//! The HTTP client of the trace exporter.
//!
//! The SDK exports from a thread of its own, where no runtime is; requests are sent by tasks on the runtime that the
//! program runs on.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use nagaya_net::tls;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// How much of a collector's answer is read, in bytes.
const ANSWER_MAX: usize = 64 << 10;

type Pool = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends exports on the runtime.
#[derive(Debug)]
pub(crate) struct RuntimeClient {
    pool: Pool,
    runtime: Handle,
    timeout: Duration,
}

impl RuntimeClient {
    /// Call it within the runtime.
    pub(crate) fn new(is_tls: bool, ca: Option<&Path>, timeout: Duration) -> Result<RuntimeClient, String> {
        let config = if is_tls {
            tls::client_config(ca)?
        } else {
            tls::client_without_certificates()?
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(RuntimeClient {
            pool: Client::builder(TokioExecutor::new()).build(connector),
            runtime: Handle::current(),
            timeout,
        })
    }
}

#[tonic::async_trait]
impl HttpClient for RuntimeClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (pool, timeout) = (self.pool.clone(), self.timeout);
        // The timer needs the runtime as well.
        let sending = async move { tokio::time::timeout(timeout, send(pool, request)).await };
        self.runtime.spawn(sending).await??
    }
}

async fn send(pool: Pool, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = pool.request(request.map(Full::new)).await?.into_parts();
    let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}
