//! Access to the room for the admin API: commands over its listener, and the engine itself where it runs in
//! this process.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::StatusCode;
use nagaya_config::Secret;
use nagaya_engine::EngineStats;
use nagaya_exec::server::Server;
use nagaya_keyspace::residency::TagError;
use nagaya_redis_client::{Client, Error, Frame, Options, RedisUrl};
use nagaya_tiering::cold::{ColdError, ColdTier};

use crate::app::banner::reachable;
use crate::http::Problem;

/// Longer than an eviction, which waits up to ten seconds for a save.
const REPLY_LIMIT: Duration = Duration::from_secs(15);

/// The handle that the routes use.
pub(crate) struct EngineHandle {
    client: Client,
    address: SocketAddr,
    has_password: bool,
    pub(super) backend: EngineBackend,
}

/// Where the data is.
pub(crate) enum EngineBackend {
    /// In this process; set once the engine runs.
    Embedded(Arc<OnceLock<EngineStats>>),
    /// In a Redis and a PostgreSQL.
    Tiered {
        redis: Box<Client>,
        cold: Arc<dyn ColdTier>,
    },
}

impl EngineHandle {
    /// Does not connect yet.
    pub(crate) fn new(
        address: SocketAddr,
        password: Option<Secret>,
        backend: EngineBackend,
    ) -> Result<EngineHandle, Error> {
        let there = reachable(address);
        let mut url = RedisUrl::single(there.ip().to_string(), there.port());
        let has_password = password.is_some();
        url.password = password;
        let options = Options {
            reply_limit: REPLY_LIMIT,
            client_name: "nagaya-house".to_owned(),
            ..Options::default()
        };
        Ok(EngineHandle {
            client: Client::new(url, options)?,
            address,
            has_password,
            backend,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns whether any user of the room has a password: that of the settings, one set by CONFIG SET requirepass,
    /// or one of ACL SETUSER. If the room does not tell, it is taken to have one.
    pub(super) async fn asks_password(&self) -> bool {
        if self.has_password {
            return true;
        }
        let rules = self.try_call(&[b"ACL", b"LIST"]).await;
        match rules {
            Ok(Frame::Array(users)) => users
                .iter()
                .filter_map(nagaya_redis_client::reply::text)
                .any(|rules| rules.split(' ').any(|rule| rule.starts_with('#'))),
            // A proxy without ACLs knows the password of the settings only.
            Err(error) if matches!(self.backend, EngineBackend::Tiered { .. }) => error
                .server_error()
                .is_none_or(|error| matches!(error.code(), "NOAUTH" | "WRONGPASS" | "NOPERM")),
            Ok(_) | Err(_) => true,
        }
    }

    /// Runs a command as a client does.
    pub(super) async fn call(&self, args: &[&[u8]]) -> Result<Frame, Problem> {
        self.try_call(args).await.map_err(|error| refusal(args, &error))
    }

    /// As [`call`](EngineHandle::call), on a dedicated connection, for commands that may block.
    pub(super) async fn call_apart(&self, args: &[&[u8]]) -> Result<Frame, Problem> {
        let answered = async { self.client.dedicated(b"").await?.call(args).await };
        answered.await.map_err(|error| refusal(args, &error))
    }

    /// Tries twice: the connection may have been closed for being idle, and whatever is run here may be run
    /// again.
    pub(super) async fn try_call(&self, args: &[&[u8]]) -> Result<Frame, Error> {
        match self.client.call(b"", args).await {
            Err(Error::Closed { .. }) => self.client.call(b"", args).await,
            answer => answer,
        }
    }

    /// Queries the engine of this process on a blocking thread. Returns `None` when the room is distributed.
    pub(super) async fn inside<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Server) -> Result<T, TagError> + Send + 'static,
    ) -> Option<Result<T, Problem>> {
        let EngineBackend::Embedded(engine) = &self.backend else {
            return None;
        };
        let Some(engine) = engine.get().cloned() else {
            let detail = "the room is still starting; try again in a moment";
            return Some(Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)));
        };
        let asked = tokio::task::spawn_blocking(move || question(engine.server())).await;
        Some(match asked {
            Ok(answer) => answer.map_err(|error| unavailable(&error)),
            Err(error) => Err(unavailable(&error)),
        })
    }

    /// Queries the cold tier of a distributed room on a blocking thread. Returns `None` when the room is
    /// embedded.
    pub(super) async fn cold<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn ColdTier) -> Result<T, ColdError> + Send + 'static,
    ) -> Option<Result<T, Problem>> {
        let EngineBackend::Tiered { cold, .. } = &self.backend else {
            return None;
        };
        let cold = Arc::clone(cold);
        let asked = tokio::task::spawn_blocking(move || question(&*cold)).await;
        Some(match asked {
            Ok(answer) => answer.map_err(|error| unavailable(&error)),
            Err(error) => Err(unavailable(&error)),
        })
    }
}

fn unavailable(error: &dyn std::error::Error) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

/// Converts an error reply or a failed connection into a problem.
fn refusal(args: &[&[u8]], error: &Error) -> Problem {
    let command = String::from_utf8_lossy(args.first().copied().unwrap_or_default()).into_owned();
    let Some(answer) = error.server_error() else {
        let detail = format!("the room does not answer {command}: {}", error.chain());
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
    };
    let text = answer.text();
    let status = match answer.code() {
        "ERR" if text.contains("unknown command") => StatusCode::NOT_IMPLEMENTED,
        "NOAUTH" | "WRONGPASS" | "NOPERM" => StatusCode::BAD_GATEWAY,
        "BUSY" | "TRYAGAIN" | "LOADING" | "MISCONF" | "CLUSTERDOWN" | "OOM" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::CONFLICT,
    };
    Problem::new(status, format!("the room refuses {command}: {text}"))
}
