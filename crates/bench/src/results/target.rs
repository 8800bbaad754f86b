//! Targets of webhooks.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::ledger::Ledger;

/// Lets the server call targets on this machine.
pub(super) const ALLOW: &str = "jobs.webhooks.allow=127.0.0.0/8";

#[derive(Deserialize)]
struct Call {
    data: Told,
}

#[derive(Deserialize)]
struct Told {
    result: usize,
}

/// Targets on addresses of their own; dropping them ends them.
pub(super) struct Targets {
    addresses: Vec<SocketAddr>,
    _serving: JoinSet<()>,
}

impl Targets {
    /// Opens this many targets; with `one_is_dead` the last one never answers.
    pub(super) async fn open(count: u8, one_is_dead: bool, ledger: &Arc<Ledger>) -> anyhow::Result<Targets> {
        let mut serving = JoinSet::new();
        let mut addresses = Vec::new();
        for place in 1..=count {
            let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, place), 0)).await?;
            addresses.push(listener.local_addr()?);
            if one_is_dead && place == count {
                serving.spawn(hold(listener))
            } else {
                serving.spawn(serve(listener, Arc::clone(ledger)))
            };
        }
        Ok(Targets {
            addresses,
            _serving: serving,
        })
    }

    /// The URL for a job; jobs are spread over the targets in turn.
    pub(super) fn url(&self, job: usize) -> String {
        format!("http://{}/", self.addresses[job % self.addresses.len()])
    }
}

async fn serve(listener: TcpListener, ledger: Arc<Ledger>) {
    let take = async move |body: Bytes| match serde_json::from_slice::<Call>(&body) {
        Ok(call) => {
            ledger.arrive(call.data.result);
            StatusCode::NO_CONTENT
        }
        Err(_) => StatusCode::BAD_REQUEST,
    };
    // It serves until the task is dropped.
    axum::serve(listener, Router::new().route("/", post(take)))
        .await
        .ok();
}

/// Takes connections and answers nothing.
async fn hold(listener: TcpListener) {
    let mut held = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        held.push(stream);
    }
}
