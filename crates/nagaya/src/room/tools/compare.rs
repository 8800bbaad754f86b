//! `nagaya room compare`: whether two places hold the same.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use nagaya_clock::SystemClock;
use nagaya_migrate::{CompareOptions, Comparison, Difference, Progress, Selection, Side, Verdict};

use super::moving::{Unit, bar, server, watched};
use super::size::count;
use crate::cli::GlobalArgs;
use crate::jobs::tools::block_on;

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// An RDB file, or the URL of a server
    a: Side,
    /// Another one [default: the server of the data folder]
    b: Option<Side>,
    /// The data folder [default: ./nagaya-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Compare only keys that match this pattern, as SCAN has it
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// Compare this many of a hundred keys
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0)]
    sample: f64,
    /// How far apart expiries may be, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    tolerance: f64,
    /// Use this database of a file; that of a server is in its URL
    #[arg(long, value_name = "NUMBER")]
    db: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn compare(global: &GlobalArgs, args: CompareArgs) -> anyhow::Result<ExitCode> {
    let b = match args.b {
        Some(side) => side,
        None => Side::Server(server(global, args.data, None, "its URL")?),
    };
    let options = CompareOptions {
        selection: Selection {
            pattern: args.pattern.map(String::into_bytes),
            db: args.db,
        },
        share: args.sample / 100.0,
        tolerance_ms: (args.tolerance.max(0.0) * 1000.0) as i64,
        ..CompareOptions::default()
    };
    let comparison = block_on(async {
        let (progress, bar) = (Progress::default(), bar(None, Unit::Keys, "comparing"));
        let work = nagaya_migrate::compare(&args.a, &b, &options, &SystemClock, &progress);
        Ok(watched(work, &bar, &progress, Unit::Keys).await?)
    })?;
    let text = if args.json {
        serde_json::to_string_pretty(&comparison)? + "\n"
    } else {
        described(&comparison)
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(match comparison.verdict {
        Verdict::Equal => ExitCode::SUCCESS,
        Verdict::Different | Verdict::Unsettled => ExitCode::FAILURE,
    })
}

fn described(comparison: &Comparison) -> String {
    let keys = count(comparison.keys, "key");
    let mut lines = vec![match comparison.verdict {
        Verdict::Equal => format!("equal: {keys} compared"),
        Verdict::Different => format!("different: {keys} compared"),
        Verdict::Unsettled => {
            format!("unsettled: {keys} compared, all equal but for some that are changed all the time")
        }
    }];
    for (number, what) in [
        (comparison.values, "with another value"),
        (comparison.expiries, "with another expiry"),
        (comparison.only_in_a, "only in A"),
        (comparison.only_in_b, "only in B"),
        (comparison.changing, "changing"),
        (comparison.equal_later, "equal at a second look"),
    ] {
        if number > 0 {
            lines.push(format!("  {number} {what}"));
        }
    }
    for (key, difference) in &comparison.differences {
        let what = match difference {
            Difference::Value => "another value",
            Difference::Expiry => "another expiry",
            Difference::OnlyInA => "only in A",
            Difference::OnlyInB => "only in B",
            Difference::Changing => "changing",
        };
        lines.push(format!("{key}: {what}"));
    }
    lines.join("\n") + "\n"
}
