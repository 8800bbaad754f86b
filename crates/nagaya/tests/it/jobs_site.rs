//! Servers of jobs behind a real load balancer, as document 002 draws them.

#[allow(dead_code, reason = "the tests of the API use the rest of it")]
#[path = "../../../jobs/api/tests/it/client.rs"]
pub(crate) mod client;
#[path = "../../../jobs/api/tests/it/sequences.rs"]
pub(crate) mod sequences;

use super::*;
use axum::Json;
use axum::routing::post;
use client::Endpoints;
use nagaya_testkit::{Nginx, free_port, http, shared};
use serde_json::Value;
use std::cell::Cell;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

/// One `nagaya jobs serve`.
pub(crate) struct Server {
    process: Process,
    pub(crate) address: SocketAddr,
    _folder: Folder,
}

impl Server {
    #[track_caller]
    pub(crate) fn start(args: &[&str]) -> Server {
        let folder = Folder::new("jobs-serve");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let launch = Launch::new("nagaya", BINARY)
            .args(["jobs", "serve", "--listen", &address.to_string(), "--data"])
            .args([folder.path().join("data")])
            .args(args);
        let process = Process::start(launch, folder.path()).unwrap();
        let server = Server {
            process,
            address,
            _folder: folder,
        };
        server.wait_ready();
        server
    }

    #[track_caller]
    fn wait_ready(&self) {
        let ready = self
            .process
            .wait_ready(LIMIT, || match http::get(self.address, "/readyz") {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(answer.body),
                Err(error) => Err(error.to_string()),
            });
        if let Err(error) = ready {
            panic!("{error}:\n{}", self.process.output());
        }
    }

    /// Where it is reached: REST and gRPC share a port.
    pub(crate) fn endpoints(&self) -> Endpoints {
        Endpoints {
            rest: self.address,
            grpc: self.address,
        }
    }

    pub(crate) fn kill9(&self) {
        self.process.kill9();
    }

    /// Starts it again on the same port and data.
    #[track_caller]
    pub(crate) fn start_again(&self) {
        self.process.start_again().unwrap();
        self.wait_ready();
    }

    /// Lets it end in its own time, which must be a good end.
    #[track_caller]
    pub(crate) fn stop(&self) {
        self.process.terminate();
        let status = self.process.wait(LIMIT).unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.process.output());
    }

    /// Requests to a route that this server has answered.
    pub(crate) fn answered(&self) -> u64 {
        let text = http::get(self.address, "/metrics").unwrap().body;
        let of_jobs = |line: &&str| line.starts_with("nagaya_http_requests_total") && line.contains("/v1/");
        let grpc =
            |line: &&str| line.starts_with("nagaya_http_requests_total") && line.contains("nagaya.jobs.v1");
        let lines = text.lines().filter(|line| of_jobs(line) || grpc(line));
        let count = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        lines.filter_map(count).sum()
    }
}

/// Servers that share a store, and the nginx in front of them.
pub(crate) struct Site {
    pub(crate) servers: Vec<Server>,
    pub(crate) endpoints: Endpoints,
    _nginx: Nginx,
}

impl Site {
    /// One server, for a file has one.
    #[track_caller]
    pub(crate) fn on_sqlite(args: &[&str]) -> Site {
        Site::of(vec![Server::start(args)])
    }

    /// Two servers on a database of their own.
    #[track_caller]
    pub(crate) fn on_postgres(args: &[&str]) -> Site {
        let url = shared::postgres().create_database();
        let args: Vec<&str> = args.iter().copied().chain(["--postgres", &url]).collect();
        Site::of(vec![Server::start(&args), Server::start(&args)])
    }

    fn of(servers: Vec<Server>) -> Site {
        let grpc = Cell::new(0);
        let nginx = Nginx::start(|address| {
            grpc.set(free_port());
            http_block(&servers, address, grpc.get())
        });
        let endpoints = Endpoints {
            rest: nginx.address(),
            grpc: SocketAddr::from((Ipv4Addr::LOCALHOST, grpc.get())),
        };
        Site {
            servers,
            endpoints,
            _nginx: nginx,
        }
    }
}

/// nginx 1.22 takes HTTP/1 or HTTP/2 on a port without TLS, so gRPC has one of its own; and connections that are kept
/// for one protocol must not serve the other.
fn http_block(servers: &[Server], rest: SocketAddr, grpc: u16) -> String {
    let mut upstream = String::new();
    for server in servers {
        writeln!(upstream, "    server {} max_fails=0;", server.address).unwrap();
    }
    format!(
        "  upstream rest {{\n{upstream}    keepalive 16;\n  }}
  upstream grpc {{\n{upstream}    keepalive 16;\n  }}
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  server {{
    listen {rest};
    client_max_body_size 16m;
    location / {{
      proxy_pass http://rest;
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_buffering off;
      proxy_read_timeout 1h;
    }}
  }}
  server {{
    listen 127.0.0.1:{grpc} http2;
    location / {{
      grpc_pass grpc://grpc;
      grpc_set_header Host $host;
      grpc_read_timeout 1h;
      grpc_send_timeout 1h;
    }}
  }}"
    )
}

/// Keeps what is posted to it, as a chat or the target of a webhook would.
pub(crate) struct Chat {
    said: Arc<Mutex<Vec<Value>>>,
    pub(crate) url: String,
    _runtime: Runtime,
}

impl Chat {
    pub(crate) fn open() -> Chat {
        Chat::open_at(0, "/")
    }

    pub(crate) fn open_at(port: u16, path: &str) -> Chat {
        let said: Arc<Mutex<Vec<Value>>> = Arc::default();
        let runtime = Runtime::new().unwrap();
        let heard = Arc::clone(&said);
        let hear = async move |Json(message): Json<Value>| heard.lock().unwrap().push(message);
        let routes = axum::Router::new().route(path, post(hear));
        let address = (Ipv4Addr::LOCALHOST, port);
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).unwrap();
        let url = format!("http://{}{path}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Chat {
            said,
            url,
            _runtime: runtime,
        }
    }

    pub(crate) fn said(&self) -> Vec<Value> {
        self.said.lock().unwrap().clone()
    }
}
