//! `nagaya jobs show`: a job, its attempts, and why it is not running.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use nagaya_client::Job;
use nagaya_config::Loaded;
use serde_json::Value;

use super::connect::{ConnectArgs, connect};
use super::show_value::{plain, table, time};
use crate::app::terminal::{self, Paint};

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The job's id
    #[arg(value_name = "ID")]
    id: String,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) async fn show(loaded: &Loaded, args: ShowArgs) -> anyhow::Result<ExitCode> {
    let client = connect(loaded, &args.connect)?;
    let job = client.job(&args.id).await?;
    let text = if args.json {
        serde_json::to_string_pretty(&job)? + "\n"
    } else {
        described(&job, terminal::stdout())
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Fields that have a place of their own, or say nothing to people.
const SHOWN_APART: [&str; 4] = ["explanation", "history", "late_reports", "deliveries"];

fn described(job: &Job, paint: Paint) -> String {
    let mut rows = vec![
        ("id".to_owned(), job.id.clone()),
        ("queue".to_owned(), job.queue.clone()),
        ("state".to_owned(), job.state.name().to_owned()),
    ];
    if let Some(why) = job.rest.get("explanation") {
        rows.push(("why".to_owned(), explained(why)));
    }
    rows.push((
        "attempts".to_owned(),
        format!("{} of {}", job.attempts, job.max_retries + 1),
    ));
    if let Some(error) = &job.error {
        rows.push(("error".to_owned(), error.clone()));
    }
    if let Some(result) = &job.result {
        rows.push(("result".to_owned(), result.to_string()));
    }
    let others = job
        .rest
        .iter()
        .filter(|(name, value)| !SHOWN_APART.contains(&name.as_str()) && !is_nothing(value));
    rows.extend(others.map(|(name, value)| (name.clone(), shown(name, value))));
    let mut text = aligned(&rows);
    for (name, title) in [
        ("history", "attempts"),
        ("late_reports", "late reports"),
        ("deliveries", "deliveries"),
    ] {
        if let Some(Value::Array(items)) = job.rest.get(name)
            && !items.is_empty()
        {
            write!(text, "\n{}\n{}", paint.bold(title), objects(items))
                .expect("writing to a string cannot fail");
        }
    }
    text
}

/// What the server says about why a job does not run: words, or an object that has some.
fn explained(why: &Value) -> String {
    match why {
        Value::Object(fields) => match fields.get("text").or_else(|| fields.get("detail")) {
            Some(words) => plain(Some(words)),
            None => plain(Some(why)),
        },
        other => plain(Some(other)),
    }
}

fn aligned(rows: &[(String, String)]) -> String {
    let width = rows
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let line = |(name, value): &(String, String)| {
        let value = value
            .lines()
            .collect::<Vec<_>>()
            .join(&format!("\n{:width$}  ", ""));
        format!("{name:width$}  {value}\n")
    };
    rows.iter().map(line).collect()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn shown(name: &str, value: &Value) -> String {
    if name.ends_with("_at") {
        time(Some(value))
    } else {
        plain(Some(value))
    }
}

/// A list of objects as a table; the columns are the fields that any of them has.
fn objects(items: &[Value]) -> String {
    let mut head: Vec<&str> = Vec::new();
    for item in items.iter().filter_map(Value::as_object) {
        for (name, value) in item {
            if !is_nothing(value) && !head.contains(&name.as_str()) {
                head.push(name);
            }
        }
    }
    let row = |item: &Value| {
        head.iter()
            .map(|name| shown(name, item.get(name).unwrap_or(&Value::Null)))
            .collect()
    };
    table(&head, items.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_told_with_its_reason_and_its_attempts() {
        let job: Job = serde_json::from_value(json!({
            "id": "17", "queue": "mail", "state": "waiting", "attempts": 1, "max_retries": 5,
            "explanation": {"reason": "paused", "text": "the queue is paused"},
            "created_at": 0, "kind": null,
            "history": [{"number": 1, "worker": "w", "error": "exit code 1"}],
        }))
        .unwrap();
        let expected = "id          17\nqueue       mail\nstate       waiting\nwhy         the queue is paused\n\
                        attempts    1 of 6\ncreated_at  1970-01-01T00:00:00Z\n\
                        \nattempts\nerror        number  worker\nexit code 1  1       w\n";
        assert_eq!(described(&job, Paint::plain()), expected);
    }
}
