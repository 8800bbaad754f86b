//! `nagaya jobs retry`, `cancel`, `run`, `move` and `delete`: named jobs, or all that a filter finds.

use std::process::ExitCode;

use anyhow::{bail, ensure};
use clap::Args;
use nagaya_client::{Client, Error, Filter};
use nagaya_config::Loaded;
use serde_json::json;

use super::connect::{ConnectArgs, connect};
use super::list::{FilterArgs, PAGE};
use crate::room::tools::confirm::{Confirmation, ask};

/// A time that is past means now.
const LONG_AGO: &str = "2000-01-01T00:00:00Z";
/// Jobs changed at a time.
const AT_A_TIME: usize = 16;

/// What is done to the jobs.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Change {
    Retry,
    Cancel,
    /// Makes a scheduled job due.
    Run,
    /// To this queue.
    Move(String),
    Delete,
}

impl Change {
    fn verb(&self) -> &'static str {
        match self {
            Change::Retry => "retry",
            Change::Cancel => "cancel",
            Change::Run => "run",
            Change::Move(_) => "move",
            Change::Delete => "delete",
        }
    }

    async fn apply(&self, client: &Client, id: &str) -> Result<(), Error> {
        let path = || Client::job_path(id);
        match self {
            Change::Retry => client.retry(id).await,
            Change::Cancel => client.cancel(id).await,
            Change::Run => client
                .patch(&path(), &json!({ "run_at": LONG_AGO }))
                .await
                .map(drop),
            Change::Move(queue) => client.patch(&path(), &json!({ "queue": queue })).await.map(drop),
            Change::Delete => client.delete(&path()).await.map(drop),
        }
    }
}

#[derive(Args)]
pub(crate) struct ChangeArgs {
    /// Jobs by id
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Change nothing, and tell how many jobs are meant
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args)]
pub(crate) struct MoveArgs {
    /// The queue to move them to
    #[arg(long, value_name = "QUEUE")]
    to: String,
    #[command(flatten)]
    which: ChangeArgs,
}

pub(super) async fn move_jobs(loaded: &Loaded, args: MoveArgs) -> anyhow::Result<ExitCode> {
    change(loaded, Change::Move(args.to), args.which).await
}

pub(super) async fn change(loaded: &Loaded, change: Change, args: ChangeArgs) -> anyhow::Result<ExitCode> {
    let verb = change.verb();
    let by_filter = !args.filter.is_empty();
    ensure!(
        args.ids.is_empty() == by_filter,
        "name jobs by id, or say which with --queue, --state, --kind or --tag"
    );
    let client = connect(loaded, &args.connect)?;
    let ids = if by_filter {
        found(&client, args.filter.filter()).await?
    } else {
        args.ids
    };
    if args.dry_run {
        eprintln!("{verb}: {} jobs are meant", ids.len());
        return Ok(ExitCode::SUCCESS);
    }
    if by_filter && !args.yes && !ids.is_empty() {
        match ask(&format!("{verb} {} jobs?", ids.len()))? {
            Confirmation::Yes => (),
            Confirmation::No => bail!("nothing was changed"),
            Confirmation::NoTerminal => bail!(
                "{} jobs would be changed and nobody can be asked; pass --yes to {verb} them",
                ids.len()
            ),
        }
    }
    let refused = change_all(&client, &change, &ids).await?;
    eprintln!("{verb}: {} of {} jobs", ids.len() - refused, ids.len());
    Ok(match refused {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The ids of all jobs of a filter.
async fn found(client: &Client, filter: Filter) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::new();
    let mut filter = Filter {
        limit: Some(PAGE),
        ..filter
    };
    loop {
        let page = client.list(&filter).await?;
        ids.extend(page.jobs.into_iter().map(|job| job.id));
        match page.next_cursor {
            None => return Ok(ids),
            cursor => filter.cursor = cursor,
        }
    }
}

/// Changes some jobs at a time; returns how many the server refused. What keeps it from answering at all is an
/// error.
async fn change_all(client: &Client, change: &Change, ids: &[String]) -> anyhow::Result<usize> {
    let mut refused = 0;
    for some in ids.chunks(AT_A_TIME) {
        let mut tasks = tokio::task::JoinSet::new();
        for id in some {
            let (client, change, id) = (client.clone(), change.clone(), id.clone());
            tasks.spawn(async move {
                let done = change.apply(&client, &id).await;
                (id, done)
            });
        }
        while let Some(done) = tasks.join_next().await {
            match done? {
                (_, Ok(())) => (),
                (id, Err(error)) if error.problem().is_some_and(|problem| problem.status < 500) => {
                    eprintln!("{id}: {error}");
                    refused += 1;
                }
                (_, Err(error)) => return Err(error.into()),
            }
        }
    }
    Ok(refused)
}
