//! `nagaya-bench room`: what it costs to lose nothing, and what it costs to have less memory than data.
//!
//! Four parts: [`persisted`] twice, with a sync every second and with one before each answer, beside
//! redis-server and its append-only file; [`larger`], where the data is ten times the memory allowed;
//! [`restart`], the time from a crash to answers.

mod larger;
mod options;
mod persisted;
mod restart;

mod memory_watch;
mod report;
mod zipf;

use std::path::Path;

pub(crate) use options::RoomArgs;
pub(super) use options::{Part, Plan};
pub(super) use report::Report;

/// Measures the parts of the plan, one after the other.
pub(super) fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Report> {
    let mut report = Report::new(plan);
    for &part in &plan.parts {
        let folder = folder.join(format!("{part:?}"));
        std::fs::create_dir(&folder)?;
        match part {
            Part::Everysec | Part::Always => {
                let measured = persisted::run(plan, part, &folder, &mut report.raw)?;
                report.persisted.push(measured);
            }
            Part::Larger => report.larger = Some(larger::run(plan, &folder)?),
            Part::Restart => report.restart = restart::run(plan, &folder)?,
        }
        // The data of a part is large; the next one needs the room.
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(report)
}
