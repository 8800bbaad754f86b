//! `nagaya jobs queues`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use nagaya_client::{Client, Queue};
use nagaya_config::{Loaded, with_unit};
use serde_json::{Map, Value, json};

use super::connect::{ConnectArgs, connect};
use super::show_value::{plain, table};

#[derive(Args)]
pub(crate) struct QueuesArgs {
    /// Let no job of this queue start
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pause: Option<String>,
    /// Let the jobs of this queue start again
    #[arg(long, value_name = "NAME")]
    resume: Option<String>,
    /// Change the settings of this queue that are named below
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Delete this queue and its ended jobs; it must have no others
    #[arg(long, value_name = "NAME")]
    delete: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Settings of a queue. What is left out stays as it is.
#[derive(Args)]
#[command(next_help_heading = "Settings, with --set")]
pub(crate) struct SettingsArgs {
    /// Lease of jobs that ask for none: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = with_unit::<Duration>)]
    timeout: Option<Duration>,
    /// Attempts after the first one
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// Most jobs that have not started; more are refused
    #[arg(long, value_name = "N")]
    depth_max: Option<u64>,
    /// Most jobs that start in a time: 100/s, 5000/m, 20/h
    #[arg(long, value_name = "JOBS/TIME")]
    rate: Option<String>,
    /// How long succeeded jobs are kept
    #[arg(long, value_name = "TIME", value_parser = with_unit::<Duration>, requires = "keep_failed")]
    keep_succeeded: Option<Duration>,
    /// How long failed and cancelled jobs are kept
    #[arg(long, value_name = "TIME", value_parser = with_unit::<Duration>, requires = "keep_succeeded")]
    keep_failed: Option<Duration>,
    /// Which events are written: all, or only ends, retries and lost leases
    #[arg(long, value_name = "WHICH", value_parser = ["all", "ends"])]
    events: Option<String>,
    /// Where ends of jobs are told that name no webhook of their own
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Any settings as the API takes them, as JSON
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
}

impl SettingsArgs {
    /// Returns the settings that are named, as the API takes them.
    fn document(&self) -> anyhow::Result<Map<String, Value>> {
        let mut settings = match &self.settings {
            None => Map::new(),
            Some(text) => serde_json::from_str(text).context("--settings is not a JSON object")?,
        };
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                settings.insert(name.to_owned(), value);
            }
        };
        set(
            "timeout_seconds",
            self.timeout.map(|time| json!(time.as_secs_f64())),
        );
        set("max_retries", self.max_retries.map(|count| json!(count)));
        set("depth_max", self.depth_max.map(|count| json!(count)));
        set("rate", self.rate.as_deref().map(rate).transpose()?);
        let kept = self.keep_succeeded.zip(self.keep_failed);
        set(
            "retention",
            kept.map(|(succeeded, failed)| {
                json!({"succeeded_seconds": succeeded.as_secs_f64(), "failed_seconds": failed.as_secs_f64()})
            }),
        );
        set("events", self.events.as_ref().map(|which| json!(which)));
        set("webhook", self.webhook.as_ref().map(|url| json!({ "url": url })));
        Ok(settings)
    }
}

/// Reads a rate like `100/s`.
fn rate(text: &str) -> anyhow::Result<Value> {
    let parts = text.split_once('/').and_then(|(jobs, time)| {
        let per_seconds = match time {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            _ => return None,
        };
        Some((jobs.parse::<u32>().ok()?, per_seconds))
    });
    let (jobs, per_seconds) =
        parts.with_context(|| format!("{text} is no rate: write 100/s, 5000/m or 20/h"))?;
    Ok(json!({"jobs": jobs, "per_seconds": per_seconds}))
}

pub(super) async fn queues(loaded: &Loaded, args: QueuesArgs) -> anyhow::Result<ExitCode> {
    let settings = args.settings.document()?;
    ensure!(
        args.set.is_some() || settings.is_empty(),
        "name the queue whose settings to change: --set NAME"
    );
    let client = connect(loaded, &args.connect)?;
    change(&client, &args, &settings).await?;
    let queues = client.queues().await?;
    let text = if args.json {
        serde_json::to_string_pretty(&queues)? + "\n"
    } else {
        as_table(&queues)
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

async fn change(client: &Client, args: &QueuesArgs, settings: &Map<String, Value>) -> anyhow::Result<()> {
    if let Some(queue) = &args.pause {
        client.pause(queue).await?;
    }
    if let Some(queue) = &args.resume {
        client.resume(queue).await?;
    }
    if let Some(queue) = &args.set {
        ensure!(!settings.is_empty(), "--set needs at least one setting");
        client.patch(&Client::queue_path(queue), settings).await?;
    }
    if let Some(queue) = &args.delete {
        client.delete(&Client::queue_path(queue)).await?;
    }
    Ok(())
}

fn as_table(queues: &[Queue]) -> String {
    const COUNTS: [&str; 7] = [
        "ready",
        "blocked",
        "scheduled",
        "running",
        "succeeded",
        "failed",
        "cancelled",
    ];
    let row = |queue: &Queue| {
        let state = if queue.paused { "paused" } else { "open" };
        let depth = queue.rest.get("depth").and_then(|depth| depth.as_object());
        let counts = COUNTS.map(|name| plain(depth.and_then(|depth| depth.get(name))));
        let mut cells = vec![queue.name.clone(), state.to_owned()];
        cells.extend(counts);
        cells
    };
    let mut head = vec!["QUEUE", "STATE"];
    let names = COUNTS.map(str::to_uppercase);
    head.extend(names.iter().map(String::as_str));
    table(&head, queues.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_jobs_in_a_time() {
        assert_eq!(rate("100/s").unwrap(), json!({"jobs": 100, "per_seconds": 1}));
        assert_eq!(rate("20/h").unwrap(), json!({"jobs": 20, "per_seconds": 3600}));
        for bad in ["", "100", "x/s", "1/d", "-1/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
