//! `nagaya-bench proxy`: what it costs to be between clients and their servers.
//!
//! [`forwarding`] measures requests through our proxy beside twemproxy and beside none; [`saves`] what saving
//! and loading costs on Redis and PostgreSQL.

mod forwarding;
mod saves;

mod engines;
mod options;
mod report;

use std::path::Path;

pub(super) use options::Plan;
pub(crate) use options::ProxyArgs;
pub(super) use report::Report;

pub(super) fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Report> {
    let mut report = Report::new(plan);
    if plan.saves {
        report.saves = Some(saves::run(plan, folder)?);
    } else {
        (report.rows, report.raw) = forwarding::run(plan, folder)?;
    }
    Ok(report)
}
