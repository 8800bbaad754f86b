//! `nagaya room import`: the keys of an RDB file into a running server.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use nagaya_clock::{Clock, SystemClock};
use nagaya_migrate::{Existing, ImportOptions, Imported, Progress, Selection, Survey};
use nagaya_redis_client::RedisUrl;
use serde_json::json;

use super::moving::{Unit, bar, server, watched};
use super::size::{count, human};
use crate::cli::GlobalArgs;
use crate::jobs::tools::block_on;

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// An RDB file, JSON lines with payloads, or - for standard input
    file: PathBuf,
    /// The server to import into [default: that of the data folder]
    #[arg(long, value_name = "URL")]
    to: Option<RedisUrl>,
    /// The data folder [default: ./nagaya-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Say what the file holds, and import nothing
    #[arg(long)]
    dry_run: bool,
    /// Import only keys that match this pattern, as SCAN has it
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// Import the keys of this database of the file
    #[arg(long, value_name = "NUMBER")]
    db: Option<u32>,
    /// Overwrite keys that are there already
    #[arg(long, conflicts_with = "keep")]
    replace: bool,
    /// Leave keys that are there already, as a second run needs it
    #[arg(long)]
    keep: bool,
    /// Import what comes before the damage of a damaged file
    #[arg(long)]
    salvage: bool,
    /// Write with this many connections at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn import(global: &GlobalArgs, args: ImportArgs) -> anyhow::Result<ExitCode> {
    let (file, bytes) = open(&args.file)?;
    let selection = Selection {
        pattern: args.pattern.as_ref().map(|pattern| pattern.as_bytes().to_vec()),
        db: args.db,
    };
    // A server that is not there is told before a long file is read.
    let to = if args.dry_run {
        None
    } else {
        Some(server(global, args.data.clone(), args.to.clone(), "--to")?)
    };
    block_on(async {
        let survey = look(&file, bytes, &selection).await?;
        let Some(to) = to else {
            return tell_survey(&survey, args.json);
        };
        // Keys keep the numbers of their databases, unless one is chosen on either side.
        let keeps_databases = args.db.is_none() && to.db == 0;
        if let Err(refusal) = check_whole(&args, &survey, keeps_databases) {
            if args.json {
                tell_survey(&survey, true)?;
            }
            return Err(refusal);
        }
        let options = ImportOptions {
            selection,
            existing: existing(&args),
            keeps_databases,
            connections: usize::from(args.connections),
            ..ImportOptions::default()
        };
        let progress = Arc::new(Progress::default());
        let bar = bar(Some(bytes), Unit::Bytes, "importing");
        let mut again = file.try_clone()?;
        again.rewind()?;
        let work = nagaya_migrate::import(again, to, options, Arc::new(SystemClock), Arc::clone(&progress));
        let imported = watched(work, &bar, &progress, Unit::Bytes).await?;
        tell(&survey, &imported, args.json)
    })
}

fn existing(args: &ImportArgs) -> Existing {
    if args.replace {
        Existing::Replace
    } else if args.keep {
        Existing::Keep
    } else {
        Existing::Refuse
    }
}

/// Opens what was named as an RDB file, and returns its length.
fn open(path: &Path) -> anyhow::Result<(File, u64)> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = if path == Path::new("-") {
        from_standard_input()?
    } else if path.is_dir() {
        let base = nagaya_migrate::base_of(path)?;
        File::open(&base).with_context(|| format!("cannot read {}", base.display()))?
    } else {
        File::open(path).with_context(cannot)?
    };
    let mut first = [0];
    let begun = file.read(&mut first).with_context(cannot)?;
    file.rewind().with_context(cannot)?;
    // An export of our own, as JSON lines.
    if begun == 1 && first == *b"{" {
        let rdb = tempfile::tempfile().context("cannot make a temporary file")?;
        let written =
            nagaya_migrate::lines_to_rdb(BufReader::new(file), BufWriter::new(rdb)).with_context(cannot)?;
        file = written.into_inner().map_err(|error| error.into_error())?;
        file.rewind()?;
    }
    let bytes = file.metadata().with_context(cannot)?.len();
    Ok((file, bytes))
}

/// Writes standard input into a nameless file: the checksum is at its end, and nothing of a damaged file is to be
/// imported.
fn from_standard_input() -> anyhow::Result<File> {
    let mut file = tempfile::tempfile().context("cannot keep standard input in a temporary file")?;
    io::copy(&mut io::stdin().lock(), &mut file).context("cannot read standard input")?;
    file.rewind()?;
    Ok(file)
}

/// Reads the whole file once, up to its checksum.
async fn look(file: &File, bytes: u64, selection: &Selection) -> anyhow::Result<Survey> {
    let progress = Arc::new(Progress::default());
    let bar = bar(Some(bytes), Unit::Bytes, "checking");
    let (file, selection, shared) = (file.try_clone()?, selection.clone(), Arc::clone(&progress));
    let work = tokio::task::spawn_blocking(move || {
        nagaya_migrate::survey(file, &selection, SystemClock.unix_ms(), &shared)
    });
    Ok(watched(work, &bar, &progress, Unit::Bytes).await?)
}

/// Refuses a file of which not everything could be imported.
fn check_whole(args: &ImportArgs, survey: &Survey, keeps_databases: bool) -> anyhow::Result<()> {
    let file = args.file.display();
    if let Some(damage) = survey.damage.as_ref().filter(|_| !args.salvage) {
        bail!(
            "{file}: {damage}; nothing was imported. --salvage imports what comes before: {}",
            count(survey.keys, "key")
        );
    }
    if args.db.is_none() && !keeps_databases && survey.databases.len() > 1 {
        let list: Vec<String> = survey
            .databases
            .iter()
            .map(|(db, keys)| format!("{db} ({})", count(*keys, "key")))
            .collect();
        bail!(
            "{file} has keys in the databases {}, and the URL names one; choose with --db, or name none there. Nothing \
             was imported",
            list.join(", ")
        );
    }
    Ok(())
}

fn tell_survey(survey: &Survey, as_json: bool) -> anyhow::Result<ExitCode> {
    let text = if as_json {
        serde_json::to_string_pretty(&json!({ "file": survey }))? + "\n"
    } else {
        described(survey)
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(match survey.damage {
        Some(_) => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

/// What a file holds, for people.
fn described(survey: &Survey) -> String {
    let mut lines = vec![
        format!(
            "RDB version {}, {}, checksum {}",
            survey.version,
            human(survey.bytes),
            survey.checksum
        ),
        format!(
            "{} to import, {} of them with an expiry; libraries of functions: {}",
            count(survey.keys, "key"),
            survey.expiring,
            survey.functions,
        ),
    ];
    for (kind, of_type) in &survey.types {
        let (keys, bytes) = (count(of_type.keys, "key"), human(of_type.bytes));
        lines.push(format!("  {kind:7} {keys}, {bytes}"));
    }
    let more = if survey.more_tags { "more than " } else { "" };
    lines.push(format!(
        "{more}{}; {} without braces, each a tag of its own",
        count(survey.tags, "tag"),
        count(survey.keys_without_tag, "key")
    ));
    if survey.databases.len() > 1 {
        let list: Vec<String> = survey
            .databases
            .iter()
            .map(|(db, keys)| format!("{db}: {keys}"))
            .collect();
        lines.push(format!("keys by database: {}", list.join(", ")));
    }
    lines.extend(exceptions(survey));
    if !survey.biggest.is_empty() {
        lines.push("largest in the file:".to_owned());
    }
    for big in &survey.biggest {
        let elements = big
            .elements
            .map_or(String::new(), |number| format!(", {number} elements"));
        lines.push(format!(
            "  {} {} ({}{elements})",
            human(big.bytes),
            big.key,
            big.kind
        ));
    }
    if let Some(damage) = &survey.damage {
        lines.push(format!("DAMAGED: {damage}; all above is what comes before"));
    }
    lines.join("\n") + "\n"
}

/// What needs a word before an import.
fn exceptions(survey: &Survey) -> Vec<String> {
    let mut lines = Vec::new();
    let left_out = [
        (survey.expired, "past their time"),
        (survey.left_out, "not chosen"),
        (survey.empty, "empty"),
        (
            survey.hashes_with_field_expiries,
            "hashes with field expiries, which not every server takes",
        ),
    ];
    for (keys, why) in left_out {
        if keys > 0 {
            lines.push(format!("{keys} {why}"));
        }
    }
    for (module, keys) in &survey.modules {
        lines.push(format!(
            "{} of the module {module} cannot be imported",
            count(*keys, "key")
        ));
    }
    lines
}

fn tell(survey: &Survey, imported: &Imported, as_json: bool) -> anyhow::Result<ExitCode> {
    if as_json {
        let report = json!({ "file": survey, "imported": imported });
        let text = serde_json::to_string_pretty(&report)? + "\n";
        io::stdout().write_all(text.as_bytes())?;
    } else {
        eprint!("{}", outcome(imported));
    }
    Ok(if imported.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What was done, for people.
fn outcome(imported: &Imported) -> String {
    let mut lines = vec![format!(
        "imported {}, {}",
        count(imported.keys, "key"),
        human(imported.bytes)
    )];
    if imported.functions > 0 {
        lines.push(format!("loaded libraries of functions: {}", imported.functions));
    }
    for (keys, what) in [
        (imported.expired, "were past their time"),
        (imported.left_out, "were not chosen"),
        (imported.empty, "were empty"),
        (imported.kept, "were there already and were kept"),
    ] {
        if keys > 0 {
            lines.push(format!("{keys} {what}"));
        }
    }
    for (module, keys) in &imported.modules {
        lines.push(format!(
            "{} of the module {module} were left out",
            count(*keys, "key")
        ));
    }
    if imported.in_the_way > 0 {
        let names = imported.in_the_way_keys.join(", ");
        lines.push(format!(
            "{} there already and not imported; say --replace or --keep: {names}",
            count(imported.in_the_way, "key"),
        ));
    }
    if imported.refused > 0 {
        lines.push(format!("{} were refused:", count(imported.refused, "value")));
    }
    for refused in &imported.refused_keys {
        lines.push(format!(
            "  {} (at byte {}): {}",
            refused.key, refused.offset, refused.reason
        ));
    }
    if let Some(why) = &imported.stopped {
        lines.push(format!("stopped: {why}"));
        lines.push("every key that was imported is whole; run it again with --keep to go on".to_owned());
    }
    lines.join("\n") + "\n"
}
