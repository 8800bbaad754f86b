//! `nagaya jobs deliveries`: what was sent to webhooks, and sending it again.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::{Args, Subcommand};
use nagaya_client::Client;
use nagaya_config::{Loaded, with_unit};
use serde_json::{Map, Value, json};

use super::connect::{ConnectArgs, connect};
use super::show_value::{plain, short, table, time};

/// Deliveries asked for at a time.
const PAGE: usize = 200;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DeliveriesArgs {
    #[command(subcommand)]
    command: Option<DeliveriesCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Subcommand)]
pub(crate) enum DeliveriesCommand {
    /// List deliveries, newest first
    List(ListArgs),
    /// Show a delivery and all its tries
    Show(ShowArgs),
    /// Send deliveries again
    Replay(ReplayArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Deliveries of this queue
    #[arg(long, short, value_name = "NAME")]
    queue: Option<String>,
    /// Deliveries of this job
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Deliveries in this state
    #[arg(long, short, value_name = "STATE", value_parser = ["pending", "delivered", "gave_up"])]
    state: Option<String>,
    /// Deliveries made since then: a time, or how long ago (2h)
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<jiff::Timestamp>,
    /// Deliveries to list at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The delivery
    #[arg(value_name = "ID")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Deliveries by id
    #[arg(value_name = "ID", conflicts_with = "failed_since")]
    ids: Vec<String>,
    /// All that were given up and were made since then: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = since)]
    failed_since: Option<jiff::Timestamp>,
    /// Only of this queue
    #[arg(long, short, value_name = "NAME", requires = "failed_since")]
    queue: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Reads a time, or how long ago it was.
fn since(text: &str) -> Result<jiff::Timestamp, String> {
    let wrong = || "must be a time like 2026-11-15T09:00:00Z or a length like 2h".to_owned();
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago: Duration = with_unit(text).map_err(|_| wrong())?;
    jiff::Timestamp::now().checked_sub(ago).map_err(|_| wrong())
}

pub(super) async fn deliveries(loaded: &Loaded, args: DeliveriesArgs) -> anyhow::Result<ExitCode> {
    match args.command.unwrap_or(DeliveriesCommand::List(args.list)) {
        DeliveriesCommand::List(args) => list(loaded, args).await,
        DeliveriesCommand::Show(args) => show(loaded, args).await,
        DeliveriesCommand::Replay(args) => replay(loaded, args).await,
    }
}

async fn list(loaded: &Loaded, args: ListArgs) -> anyhow::Result<ExitCode> {
    let client = connect(loaded, &args.connect)?;
    let since = args.since.map(|time| time.to_string());
    let filter = [
        ("queue", args.queue.as_deref()),
        ("job", args.job.as_deref()),
        ("state", args.state.as_deref()),
        ("since", since.as_deref()),
    ];
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let limit = (args.limit - found.len()).clamp(1, PAGE).to_string();
        let more = [("limit", Some(limit.as_str())), ("cursor", cursor.as_deref())];
        let mut page = page(&client, filter.into_iter().chain(more)).await?;
        if let Some(Value::Array(some)) = page.remove("deliveries") {
            found.extend(some);
        }
        cursor = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() || found.len() >= args.limit {
            break;
        }
    }
    let text = if args.json {
        serde_json::to_string_pretty(&json!({ "deliveries": found }))? + "\n"
    } else {
        as_table(&found)
    };
    io::stdout().write_all(text.as_bytes())?;
    if !args.json && cursor.is_some() {
        eprintln!("there are more; --limit shows them");
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a page of deliveries.
async fn page<'a>(
    client: &Client,
    query: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> anyhow::Result<Map<String, Value>> {
    let said = query.filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    let query = said.collect::<Vec<_>>().join("&");
    Ok(client.get(&format!("/v1/deliveries?{query}")).await?)
}

async fn show(loaded: &Loaded, args: ShowArgs) -> anyhow::Result<ExitCode> {
    let client = connect(loaded, &args.connect)?;
    let page = page(&client, [("id", Some(args.id.as_str()))].into_iter()).await?;
    let found = page.get("deliveries").and_then(|all| all.get(0));
    let Some(delivery) = found else {
        bail!("there is no delivery {}", args.id);
    };
    let text = if args.json {
        serde_json::to_string_pretty(delivery)? + "\n"
    } else {
        as_text(delivery)
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

async fn replay(loaded: &Loaded, args: ReplayArgs) -> anyhow::Result<ExitCode> {
    ensure!(
        !args.ids.is_empty() || args.failed_since.is_some(),
        "name deliveries by id, or say which with --failed-since"
    );
    let client = connect(loaded, &args.connect)?;
    if let Some(since) = args.failed_since {
        let mut wanted = json!({"state": "gave_up", "since": since.to_string()});
        if let Some(queue) = args.queue {
            wanted["queue"] = queue.into();
        }
        let mut replayed = 0;
        loop {
            let answer = client.post("/v1/deliveries/replay", &wanted).await?;
            replayed += answer["replayed"].as_u64().unwrap_or(0);
            if answer["more"] != true {
                break;
            }
        }
        eprintln!("replay: {replayed} deliveries");
        return Ok(ExitCode::SUCCESS);
    }
    let mut missing = 0;
    for id in &args.ids {
        let answer = client.post("/v1/deliveries/replay", &json!({ "id": id })).await?;
        if answer["replayed"] == 0 {
            eprintln!("{id}: there is no such delivery");
            missing += 1;
        }
    }
    eprintln!(
        "replay: {} of {} deliveries",
        args.ids.len() - missing,
        args.ids.len()
    );
    Ok(match missing {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn as_table(deliveries: &[Value]) -> String {
    let row = |delivery: &Value| {
        let tries = delivery["tries"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        vec![
            plain(delivery.get("id")),
            plain(delivery.get("job")),
            plain(delivery.get("event")),
            plain(delivery.get("state")),
            tries.len().to_string(),
            time(delivery.get("created_at")),
            time(delivery.get("next_try_at")),
            short(&plain(delivery.get("url"))),
            short(&tries.last().map(outcome).unwrap_or_default()),
        ]
    };
    let head = [
        "ID", "JOB", "EVENT", "STATE", "TRIES", "CREATED", "NEXT", "URL", "LAST TRY",
    ];
    table(&head, deliveries.iter().map(row).collect())
}

fn as_text(delivery: &Value) -> String {
    const FIELDS: [&str; 9] = [
        "id",
        "job",
        "queue",
        "tenant",
        "event",
        "url",
        "state",
        "created_at",
        "next_try_at",
    ];
    let fields = FIELDS.iter().filter(|name| delivery.get(**name).is_some());
    let mut text: String = fields
        .map(|name| format!("{:<12} {}\n", name.replace('_', " "), plain(delivery.get(*name))))
        .collect();
    let tries = delivery["tries"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let row = |one: &Value| {
        vec![
            plain(one.get("number")),
            time(one.get("at")),
            format!("{} ms", plain(one.get("latency_ms"))),
            outcome(one),
            short(&plain(one.get("reply"))),
        ]
    };
    text.push('\n');
    text + &table(
        &["TRY", "AT", "TOOK", "OUTCOME", "REPLY"],
        tries.iter().map(row).collect(),
    )
}

/// What a try came to: the reply's status, or what kept it from coming.
fn outcome(one: &Value) -> String {
    match one.get("error") {
        Some(error) => plain(Some(error)),
        None => plain(one.get("status")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_as_such_or_by_how_long_ago_it_was() {
        assert_eq!(since("2026-11-15T09:00:00Z").unwrap().as_second(), 1_794_733_200);
        let ago = jiff::Timestamp::now().as_second() - since("2h").unwrap().as_second();
        assert!((7_199..=7_201).contains(&ago), "{ago}");
        assert!(since("yesterday").is_err());
    }

    #[test]
    fn a_delivery_shows_its_tries() {
        let delivery = json!({
            "id": "7", "job": "17", "queue": "mail", "event": "failed", "state": "pending", "url": "http://a/",
            "tries": [{"number": 1, "at": "2026-11-15T09:00:00Z", "latency_ms": 3, "error": "refused", "reply": ""}],
        });
        let text = as_text(&delivery);
        assert!(
            text.contains("state        pending") && text.contains("refused"),
            "{text}"
        );
        let line = as_table(&[delivery]);
        assert!(line.lines().last().unwrap().starts_with("7   17"), "{line}");
    }
}
