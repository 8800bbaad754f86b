//! `nagaya jobs list`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use nagaya_client::{Filter, Job, JobPage, State};
use nagaya_config::Loaded;

use super::connect::{ConnectArgs, connect};
use super::show_value::{plain, short, table, time};

/// Jobs asked for at a time; the server may give fewer.
pub(super) const PAGE: u32 = 200;

#[derive(Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Jobs to list at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Which jobs are meant.
#[derive(Args, Clone)]
pub(super) struct FilterArgs {
    /// Jobs of this queue
    #[arg(long, short, value_name = "NAME")]
    queue: Option<String>,
    /// Jobs in this state
    #[arg(long, short, value_name = "STATE")]
    state: Option<StateArg>,
    /// Jobs of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Jobs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum StateArg {
    Scheduled,
    Waiting,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl FilterArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_none() && self.state.is_none() && self.kind.is_none() && self.tag.is_none()
    }

    pub(super) fn filter(&self) -> Filter {
        let state = self.state.map(|state| match state {
            StateArg::Scheduled => State::Scheduled,
            StateArg::Waiting => State::Waiting,
            StateArg::Running => State::Running,
            StateArg::Succeeded => State::Succeeded,
            StateArg::Failed => State::Failed,
            StateArg::Cancelled => State::Cancelled,
        });
        Filter {
            queue: self.queue.clone(),
            state,
            kind: self.kind.clone(),
            tag: self.tag.clone(),
            ..Filter::default()
        }
    }
}

pub(super) async fn list(loaded: &Loaded, args: ListArgs) -> anyhow::Result<ExitCode> {
    let client = connect(loaded, &args.connect)?;
    let mut page = JobPage {
        jobs: Vec::new(),
        next_cursor: None,
    };
    loop {
        let left = args.limit - u32::try_from(page.jobs.len()).unwrap_or(args.limit);
        let filter = Filter {
            limit: Some(left.min(PAGE)),
            cursor: page.next_cursor.take(),
            ..args.filter.filter()
        };
        let more = client.list(&filter).await?;
        page.jobs.extend(more.jobs);
        page.next_cursor = more.next_cursor;
        if page.next_cursor.is_none() || page.jobs.len() >= args.limit as usize {
            break;
        }
    }
    let text = if args.json {
        serde_json::to_string_pretty(&page)? + "\n"
    } else {
        as_table(&page.jobs)
    };
    io::stdout().write_all(text.as_bytes())?;
    if !args.json && page.next_cursor.is_some() {
        eprintln!("there are more; --limit shows them");
    }
    Ok(ExitCode::SUCCESS)
}

fn as_table(jobs: &[Job]) -> String {
    let row = |job: &Job| {
        vec![
            job.id.clone(),
            job.queue.clone(),
            job.state.name().to_owned(),
            format!("{}/{}", job.attempts, job.max_retries + 1),
            time(job.rest.get("created_at")),
            plain(job.rest.get("kind")),
            short(job.error.as_deref().unwrap_or_default()),
        ]
    };
    let head = ["ID", "QUEUE", "STATE", "ATTEMPTS", "CREATED", "KIND", "ERROR"];
    table(&head, jobs.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_one_line() {
        let job: Job = serde_json::from_value(json!({
            "id": "17", "queue": "mail", "state": "failed", "attempts": 2, "max_retries": 5,
            "created_at": "2026-11-15T09:00:00.123Z", "error": "exit code 1: a\nb",
        }))
        .unwrap();
        let text = as_table(&[job]);
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(
            row,
            [
                "17",
                "mail",
                "failed",
                "2/6",
                "2026-11-15T09:00:00Z",
                "exit",
                "code",
                "1:",
                "a"
            ]
        );
    }
}
