//! `nagaya jobs schedule`: jobs that come again.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use nagaya_client::{NewJob, NewSchedule, Schedule};
use nagaya_config::Loaded;

use super::connect::{ConnectArgs, connect};
use super::enqueue::{JobArgs, payload};
use super::show_value::{table, time};

#[derive(Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Show all schedules
    List(ListArgs),
    /// Set a schedule up, or replace the one of the same name
    Set(Box<SetArgs>),
    /// Remove a schedule
    Remove(RemoveArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args)]
pub(crate) struct SetArgs {
    /// The schedule's name
    #[arg(value_name = "NAME")]
    name: String,
    /// When: five cron fields, six with seconds first, or @daily and the like
    #[arg(value_name = "CRON")]
    cron: String,
    /// The queue of each run's job
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// The payload of each run's job, as JSON
    #[arg(value_name = "PAYLOAD", default_value = "null")]
    payload: String,
    /// The time zone of the cron fields [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// What becomes of runs that were missed: skip, once or all
    #[arg(long, value_name = "POLICY", value_parser = ["skip", "once", "all"])]
    missed: Option<String>,
    #[command(flatten)]
    options: JobArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args)]
pub(crate) struct RemoveArgs {
    /// The schedule's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) async fn schedule(loaded: &Loaded, command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    match command {
        ScheduleCommand::List(args) => {
            let schedules = connect(loaded, &args.connect)?.schedules().await?;
            let text = if args.json {
                serde_json::to_string_pretty(&schedules)? + "\n"
            } else {
                as_table(&schedules)
            };
            io::stdout().write_all(text.as_bytes())?;
        }
        ScheduleCommand::Set(args) => {
            let schedule = NewSchedule {
                name: args.name,
                cron: args.cron,
                time_zone: args.time_zone,
                missed: args.missed,
                job: args
                    .options
                    .apply(NewJob::with_raw(args.queue, payload(&args.payload)?)),
            };
            connect(loaded, &args.connect)?.set_schedule(&schedule).await?;
        }
        ScheduleCommand::Remove(args) => {
            connect(loaded, &args.connect)?
                .remove_schedule(&args.name)
                .await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_table(schedules: &[Schedule]) -> String {
    let row = |schedule: &Schedule| {
        vec![
            schedule.name.clone(),
            schedule.cron.clone(),
            schedule.time_zone.clone().unwrap_or_default(),
            if schedule.paused { "paused" } else { "open" }.to_owned(),
            time(schedule.rest.get("next_run_at")),
            time(schedule.rest.get("last_run_at")),
        ]
    };
    let head = ["NAME", "CRON", "ZONE", "STATE", "NEXT", "LAST"];
    table(&head, schedules.iter().map(row).collect())
}
