//! The room on Redis and PostgreSQL: the settings of the servers, and what rests.

use nagaya_tiering::cold::Finding;

use super::report::{Part, Report};
use crate::room::distributed::Backends;
use crate::room::tools::size::{count, human};

/// Asks both places.
pub(super) fn examine(backends: &Backends) -> anyhow::Result<Report> {
    let found = backends.examine()?;
    let mut report = Report::default();
    if let Some(nodes) = found.hot.fact {
        report.note(
            Part::Hot,
            format!("{} of Redis answer", count(nodes as u64, "primary server")),
        );
    }
    if let Some(totals) = found.cold.fact {
        let (keys, tags) = (count(totals.keys, "key"), count(totals.tags, "tag"));
        let size = human(totals.disk_bytes);
        report.note(Part::Cold, format!("{keys} of {tags}, {size} in PostgreSQL"));
    }
    tell(&mut report, Part::Hot, found.hot.findings);
    tell(&mut report, Part::Cold, found.cold.findings);
    Ok(report)
}

fn tell(report: &mut Report, part: Part, findings: Vec<Finding>) {
    for finding in findings {
        report.find(part, finding.what, finding.remedy);
    }
}
