//! The HTTP and gRPC interfaces over real sockets.

// A test's helpers fail as loudly as the test itself.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod grpc;
mod http;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use nagaya_ids::FixedPermit;
use nagaya_ids::id_clock::RunningClock;
use nagaya_ids::layout::Layout;
use nagaya_ids::mint::Mint;
use nagaya_ids::server::Stats;
use nagaya_ids_api::{IdsApi, grpc_router, katsubushi_router, router};

/// An id server of worker 7.
struct TestServer {
    api: IdsApi,
    address: SocketAddr,
}

impl TestServer {
    async fn start() -> TestServer {
        let mint = Arc::new(Mint::new(Layout::default(), RunningClock::system()));
        mint.set_permit(Some(Arc::new(FixedPermit::new(7))));
        let stats = Arc::new(Stats::new(&mint, "1.2.3"));
        let api = IdsApi { mint, stats };
        let routes = Router::new()
            .merge(router(api.clone()))
            .merge(katsubushi_router(api.clone()))
            .merge(grpc_router(api.clone()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // Ends with the test's runtime.
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        TestServer { api, address }
    }
}
