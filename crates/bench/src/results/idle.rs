//! Many streams on which nothing happens, and the moment when something does.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_clock::{Clock, SystemClock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::NagayaServers;
use super::report::Idle;
use super::ways::open_stream;
use super::work;
use crate::jobs::nagaya_server::NagayaServer;
use crate::{proc, progress};

/// Streams that are opened at a time.
const OPENING: usize = 64;
/// File descriptors besides those of the streams.
const SPARE: usize = 200;
/// Time limit until every stream has reported a job.
const LATE: Duration = Duration::from_secs(60);

pub(super) fn run(servers: &mut NagayaServers<'_>) -> anyhow::Result<Idle> {
    let count = servers.plan.connections;
    raise_limit(count + SPARE)?;
    let settings = format!("http.connections_max={}", count + SPARE);
    let server = Arc::new(servers.start(&[settings])?);
    let before = proc::resident_bytes(server.pid())?;
    let idle = servers.runtime.block_on(async {
        let streams = open_all(&server, count).await?;
        let after = proc::resident_bytes(server.pid())?;
        let told_after = tell_all(&server, streams).await?;
        anyhow::Ok(Idle {
            streams: count,
            before_bytes: before,
            after_bytes: after,
            told_after_ms: told_after.as_secs_f64() * 1e3,
        })
    })?;
    progress(&format!("  {idle}"));
    Ok(idle)
}

/// Our own descriptors, and those of the server, which inherits the limit.
fn raise_limit(wanted: usize) -> anyhow::Result<()> {
    let wanted = u64::try_from(wanted)?;
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if now.maximum.is_some_and(|maximum| maximum < wanted) {
        bail!("{wanted} open files are needed; raise the hard limit (ulimit -Hn) or use fewer --connections");
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("the limit of open files cannot be raised")
}

async fn open_all(server: &Arc<NagayaServer>, count: usize) -> anyhow::Result<Vec<BufReader<TcpStream>>> {
    let places = Arc::new(Semaphore::new(OPENING));
    let mut opening = JoinSet::new();
    for _ in 0..count {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .context("the places were closed")?;
        let server = Arc::clone(server);
        opening.spawn(async move {
            let stream = open_stream(&server).await;
            drop(place);
            stream
        });
    }
    let mut streams = Vec::with_capacity(count);
    while let Some(stream) = opening.join_next().await {
        streams.push(stream.context("opening a stream ended badly")??);
    }
    Ok(streams)
}

/// Completes a job; returns how long it took until the last stream had reported it.
async fn tell_all(server: &NagayaServer, streams: Vec<BufReader<TcpStream>>) -> anyhow::Result<Duration> {
    let mut readers = JoinSet::new();
    for mut stream in streams {
        readers.spawn(async move {
            let mut line = String::new();
            while !line.starts_with("data: ") {
                line.clear();
                if stream.read_line(&mut line).await? == 0 {
                    bail!("an idle stream was ended");
                }
            }
            Ok(())
        });
    }
    let client = work::connect(server)?;
    let _workers = work::workers(&client);
    let from = SystemClock.now();
    client.enqueue(work::job(0, None)?).await?;
    let all = async {
        while let Some(told) = readers.join_next().await {
            told.context("a reader ended badly")??;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(LATE, all)
        .await
        .context("some streams did not tell of a job")??;
    Ok(SystemClock.now() - from)
}
