//! `nagaya jobs queues`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use nagaya_client::Queue;
use nagaya_config::Loaded;

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
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) async fn queues(loaded: &Loaded, args: QueuesArgs) -> anyhow::Result<ExitCode> {
    let client = connect(loaded, &args.connect)?;
    if let Some(queue) = &args.pause {
        client.pause(queue).await?;
    }
    if let Some(queue) = &args.resume {
        client.resume(queue).await?;
    }
    let queues = client.queues().await?;
    let text = if args.json {
        serde_json::to_string_pretty(&queues)? + "\n"
    } else {
        as_table(&queues)
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
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
