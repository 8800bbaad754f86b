//! `nagaya token list`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use nagaya_client::{Client, Error};
use nagaya_config::Loaded;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::PATH;
use crate::jobs::tools::connect::{ConnectArgs, connect};
use crate::jobs::tools::show_value::{table, time};

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// A token as the API returns it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Token {
    pub(super) tenant: String,
    pub(super) name: String,
    scopes: Vec<String>,
    queues: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

pub(super) async fn list(loaded: &Loaded, args: ListArgs) -> anyhow::Result<ExitCode> {
    let tokens = tokens(&connect(loaded, &args.connect)?).await?;
    let text = if args.json {
        serde_json::to_string_pretty(&json!({ "tokens": tokens }))? + "\n"
    } else {
        as_table(&tokens)
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Reads all tokens of a server.
pub(super) async fn tokens(client: &Client) -> anyhow::Result<Vec<Token>> {
    #[derive(Deserialize)]
    struct Answer {
        tokens: Vec<Token>,
    }
    match client.get::<Answer>(PATH).await {
        Ok(answer) => Ok(answer.tokens),
        Err(Error::Refused(problem)) if problem.status == 404 => Err(anyhow!(
            "the server at {} keeps no tokens: they rest with its jobs, and `jobs.enabled` is false",
            client.url()
        )),
        Err(error) => Err(error.into()),
    }
}

fn as_table(tokens: &[Token]) -> String {
    let row = |token: &Token| {
        let queues = if token.queues.is_empty() {
            "all".to_owned()
        } else {
            token.queues.join(",")
        };
        let expires = match token.rest.get("expires_at") {
            None => "never".to_owned(),
            at => time(at),
        };
        vec![
            token.name.clone(),
            token.tenant.clone(),
            token.scopes.join(","),
            queues,
            time(token.rest.get("created_at")),
            expires,
        ]
    };
    let head = ["NAME", "TENANT", "SCOPES", "QUEUES", "CREATED", "EXPIRES"];
    table(&head, tokens.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_line_and_its_bounds_are_told() {
        let token = |more: Value| {
            let mut one = json!({
                "tenant": "shop", "name": "web", "scopes": ["enqueue", "read"], "queues": [],
                "created_at": "2026-11-15T09:00:00.123Z",
            });
            one.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let text = as_table(&[serde_json::from_value(one).unwrap()]);
            let line = text.lines().last().unwrap().to_owned();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            token(json!({})),
            [
                "web",
                "shop",
                "enqueue,read",
                "all",
                "2026-11-15T09:00:00Z",
                "never"
            ]
        );
        let bound = token(json!({"queues": ["a", "b"], "expires_at": "2026-12-15T09:00:00Z"}));
        assert_eq!(
            bound[3..],
            ["a,b", "2026-11-15T09:00:00Z", "2026-12-15T09:00:00Z"]
        );
    }
}
