//! Part three: jobs that come and go while a transaction stays open.
//!
//! PostgreSQL can clean nothing that the transaction might still see, so what a queue leaves behind piles up.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::caller::Caller;
use super::core::{BATCH, drain, fill, timed};
use super::options::Plan;
use super::postgres::Postgres;
use super::report::Figure;
use crate::progress;
use nagaya_clock::{Clock, SystemClock};

/// Measures the speed before the transaction, and at the end of the time that it is held.
pub(super) fn run<C: Caller>(
    plan: &Plan,
    subject: &'static str,
    caller: &C,
    postgres: &Postgres,
    runtime: &Runtime,
) -> anyhow::Result<Vec<Figure>> {
    let window = plan.hold / 4;
    let before = runtime.block_on(steady(caller, window))?;
    let held = postgres.hold_snapshot()?;
    runtime.block_on(steady(caller, plan.hold - window))?;
    let after = runtime.block_on(steady(caller, window))?;
    drop(held);
    let figure = |part: &str, (jobs, seconds)| Figure::speed(subject, part.to_owned(), jobs, seconds);
    let figures = vec![figure("snapshot-before", before), figure("snapshot-held", after)];
    for figure in &figures {
        progress(&format!("  {}: {:.0} jobs/s", figure.part, figure.per_second()));
    }
    Ok(figures)
}

/// Lets jobs come and go for a while; returns how many did, and in how many seconds.
async fn steady<C: Caller>(caller: &C, duration: Duration) -> anyhow::Result<(u64, f64)> {
    let until = SystemClock.now() + duration;
    let (mut jobs, mut seconds) = (0, 0.0);
    while SystemClock.now() < until {
        seconds += timed(async {
            fill(caller, BATCH * 4).await?;
            drain(caller, BATCH * 4).await
        })
        .await?;
        jobs += BATCH * 4;
    }
    Ok((jobs, seconds))
}
