//! What the commands that move keys share: the server they mean, and a bar.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use nagaya_migrate::Progress;
use nagaya_redis_client::RedisUrl;

use super::room_data::RoomData;
use crate::app::banner::reachable;
use crate::app::data_dir::{DataDir, Found};
use crate::cli::GlobalArgs;

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// What a bar counts.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Bytes,
    Keys,
}

/// Returns the server that was named, or else the one that runs on the data folder.
pub(super) fn server(
    global: &GlobalArgs,
    data: Option<String>,
    named: Option<RedisUrl>,
    flag: &str,
) -> anyhow::Result<RedisUrl> {
    if let Some(url) = named {
        return Ok(url);
    }
    let room_data = RoomData::new(global, data)?;
    let folder = room_data.data.display();
    let holder = match DataDir::find(&room_data.data)? {
        Found::Used(holder) => holder,
        Found::Free(_) => {
            bail!("no server runs on {folder}; start it with `nagaya up`, or name one with {flag}")
        }
    };
    let address = holder.room.with_context(|| {
        format!("the server of {folder} does not say where it listens; wait until it is up")
    })?;
    let address = reachable(address);
    let mut url = RedisUrl::single(address.ip().to_string(), address.port());
    url.password = room_data.room.password;
    Ok(url)
}

/// Makes a bar on the terminal; indicatif draws none elsewhere.
pub(super) fn bar(total: Option<u64>, unit: Unit, what: &'static str) -> ProgressBar {
    let (bar, template) = match (total, unit) {
        (Some(total), Unit::Bytes) => (
            ProgressBar::new(total),
            "{msg} {bar:20} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left",
        ),
        (Some(total), Unit::Keys) => (
            ProgressBar::new(total),
            "{msg} {bar:20} {pos} of {len} keys, {per_sec}, {eta} left",
        ),
        (None, _) => (ProgressBar::no_length(), "{msg} {spinner} {pos} keys, {per_sec}"),
    };
    let bar = match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    bar.with_message(what)
}

/// Moves the bar while the work goes on.
pub(super) async fn watched<T>(
    work: impl Future<Output = T>,
    bar: &ProgressBar,
    progress: &Progress,
    unit: Unit,
) -> T {
    let mut work = std::pin::pin!(work);
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            done = &mut work => {
                bar.finish_and_clear();
                return done;
            }
            _ = ticks.tick() => bar.set_position(match unit {
                Unit::Bytes => progress.bytes(),
                Unit::Keys => progress.keys(),
            }),
        }
    }
}
