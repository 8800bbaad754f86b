//! Part two: what a job costs with few and with many waiting.

use super::caller::Caller;
use super::core::{drain, fill, timed};
use super::options::Plan;
use super::report::Figure;
use crate::progress;

/// Jobs that go through at each size.
const JOBS: u64 = 10_000;

/// Fills the queue up to each size in turn and lets some jobs through: as many come in as go out.
pub(super) async fn run<C: Caller>(
    plan: &Plan,
    subject: &'static str,
    caller: &C,
) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut waiting = 0;
    let mut sizes = plan.waiting.clone();
    sizes.sort_unstable();
    for size in sizes {
        fill(caller, size.saturating_sub(waiting)).await?;
        waiting = size.max(waiting);
        let jobs = JOBS.min(waiting);
        let seconds = timed(async {
            fill(caller, jobs).await?;
            drain(caller, jobs).await
        })
        .await?;
        let figure = Figure::speed(subject, format!("flat-{size}"), jobs, seconds);
        progress(&format!(
            "  with {size} waiting: {:.0} jobs/s",
            figure.per_second()
        ));
        figures.push(figure);
    }
    Ok(figures)
}
